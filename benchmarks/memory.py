"""Memory of `linda augment` by number of rows and label mode.

    python benchmarks/memory.py                                # 500,000 and 5,000,000 rows with EDA
    python benchmarks/memory.py --rows 20000 --rows 200000 --labels measured --labels hard
    python benchmarks/memory.py --method linda --model FOLDER --rows 200 --rows 2000

Each run is a separate process; the figure is its peak memory. The largest table may take at most 1.3 times the memory
of the smallest, because memory is that of one block.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import click

from linda.augmentation.labels import MODES

MOST_GROWTH = 1.3


@click.command()
@click.option("--rows", multiple=True, default=(500_000, 5_000_000), show_default=True, help="Sizes of tables.")
@click.option("--words", default=10, show_default=True, help="Words in a text.")
@click.option("--classes", default=6, show_default=True, help="Labels in the table.")
@click.option("--method", default="eda", show_default=True)
@click.option("--model", help="For LINDA.")
@click.option("--labels", "modes", multiple=True, type=click.Choice(MODES), default=("interpolated",))
@click.option(
    "--encoder", help="Fine-tune a teacher from it for predicted labels; else one that costs nothing answers."
)
@click.option("--workers", default=1, show_default=True)
def main(rows: tuple[int, ...], words: int, classes: int, modes: tuple[str, ...], **settings: Any) -> None:
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables = {count: _write_table(folder / f"{count}.jsonl", count, words, classes) for count in rows}
        click.echo(f"{'labels':<14}" + "".join(f"{count:>12,}" for count in rows) + f"{'growth':>12}")
        for mode in modes:
            peaks = [_peak_mb(table, {**settings, "labels": mode}, classes) for table in tables.values()]
            growth = max(peaks) / min(peaks)
            failed |= growth > MOST_GROWTH
            click.echo(f"{mode:<14}" + "".join(f"{peak:>9.0f} MB" for peak in peaks) + f"{growth:>12.2f}")
    sys.exit(1 if failed else 0)


def _write_table(path: Path, rows: int, words: int, classes: int) -> Path:
    random = Random(0)
    vocabulary = ["".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(2, 9))) for _ in range(20_000)]
    with path.open("w") as file:
        for _ in range(rows):
            text = " ".join(random.choices(vocabulary, k=words))
            file.write(json.dumps({"text": text, "label": random.randrange(classes), "note": text[:20]}) + "\n")
    return path


def _peak_mb(table: Path, settings: dict[str, Any], classes: int) -> float:
    done = subprocess.run(
        [sys.executable, __file__, "--measured-run", str(table), json.dumps(settings), str(classes)],
        check=True,
        stdout=subprocess.PIPE,
    )
    return float(done.stdout)


class _Evenly:
    """A trivial teacher."""

    def __init__(self, classes: int) -> None:
        self.classes_ = list(range(classes))

    def predict_proba(self, texts: list[str]) -> list[list[float]]:
        return [[1 / len(self.classes_)] * len(self.classes_) for _ in texts]


def _measured_run(table: str, settings: dict[str, Any], classes: int) -> None:
    from linda.augmentation import Augmenter
    from linda.augmentation.file_pipeline import augment_file

    teacher = None if settings["encoder"] else _Evenly(classes)
    augment_file(Augmenter(**settings, teacher=teacher, progress=True), table, f"{table}.out.parquet", restart=True)
    print(_own_peak_mb())


def _own_peak_mb() -> float:
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would include the process before exec
        peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(peak.split()[1]) / 1024
    import resource

    peak_of_process = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak_of_process / (2**20 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measured-run"]:
        _measured_run(sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
