"""Memory of `linda augment` by number of rows and label mode.

    python benchmarks/memory.py                                # 500,000 and 5,000,000 rows with EDA
    python benchmarks/memory.py --rows 20000 --rows 200000 --labels measured --labels hard
    python benchmarks/memory.py --method linda --model FOLDER --rows 200 --rows 2000

Each run is a separate process; the figure is its peak memory. The table is printed row by row, as Markdown. The largest
input may take at most 1.3 times the memory of the smallest, because memory is that of one block. The default takes
about 15 minutes of CPU time and 3 GB of disk.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import click

from linda.augmentation.label_rules import MODES

MOST_GROWTH = 1.3


@click.command()
@click.option("--rows", multiple=True, default=(500_000, 5_000_000), show_default=True, help="Sizes of tables.")
@click.option("--words", default=10, show_default=True, help="Words per text.")
@click.option("--classes", default=6, show_default=True, help="Number of classes.")
@click.option("--method", default="eda", show_default=True)
@click.option("--model", help="Folder of a LINDA model.")
@click.option("--labels", "modes", multiple=True, type=click.Choice(MODES), default=("interpolated",))
@click.option(
    "--encoder", help="Fine-tune a teacher from this encoder for predicted labels; otherwise the teacher is trivial."
)
@click.option("--workers", default=1, show_default=True)
@click.option("--shuffle", is_flag=True, help="Shuffle the rows first.")
def main(
    rows: tuple[int, ...], words: int, classes: int, modes: tuple[str, ...], shuffle: bool, **settings: Any
) -> None:
    failed = False
    click.echo("| labels | rows | peak of resident memory | seconds | processor seconds |\n|---|---:|---:|---:|---:|")
    for mode in modes:
        peaks = []
        for count in rows:
            with tempfile.TemporaryDirectory() as folder:  # deleted after each run, because the tables are large
                table = _write_table(Path(folder) / "in.jsonl", count, words, classes)
                peak, seconds, processor = _measured(table, {**settings, "labels": mode}, classes, shuffle)
            peaks.append(peak)
            click.echo(f"| {mode} | {count:,} | {peak:.0f} MB | {seconds:,.0f} | {processor:,.0f} |")
        growth = max(peaks) / min(peaks)
        failed |= growth > MOST_GROWTH
        click.echo(f"| {mode} | | {growth:.2f} times the least | | |")
    sys.exit(1 if failed else 0)


def _write_table(path: Path, rows: int, words: int, classes: int) -> Path:
    random = Random(0)
    vocabulary = ["".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(2, 9))) for _ in range(20_000)]
    with path.open("w") as file:
        for _ in range(rows):
            text = " ".join(random.choices(vocabulary, k=words))
            file.write(json.dumps({"text": text, "label": random.randrange(classes), "note": text[:20]}) + "\n")
    return path


def _measured(table: Path, settings: dict[str, Any], classes: int, shuffle: bool) -> list[float]:
    """Return MB, seconds and processor seconds of a run."""
    arguments = [str(table), json.dumps(settings), str(classes), str(int(shuffle))]
    command = [sys.executable, __file__, "--measured-run", *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return [float(value) for value in done.stdout.split()]


class _UniformTeacher:
    """Predicts the same probability for every class."""

    def __init__(self, classes: int) -> None:
        self.classes_ = list(range(classes))

    def predict_proba(self, texts: list[str]) -> list[list[float]]:
        return [[1 / len(self.classes_)] * len(self.classes_) for _ in texts]


def _measured_run(table: str, settings: dict[str, Any], classes: int, shuffle: bool) -> None:
    from linda.augmentation import Augmenter
    from linda.file_runs.file_pipeline import augment_file

    teacher = None if settings["encoder"] else _UniformTeacher(classes)
    start = time.monotonic()
    augment_file(Augmenter(**settings, teacher=teacher, progress=True), table, f"{table}.parquet", shuffle=shuffle)
    print(_own_peak_mb(), time.monotonic() - start, time.process_time())


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
        _measured_run(sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4]), sys.argv[5] == "1")
    else:
        main()
