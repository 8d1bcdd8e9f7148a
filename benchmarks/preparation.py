"""Speed of reading, checking, counting and splitting a table into blocks, the only serial step.

    python benchmarks/preparation.py            # 100,000 rows as JSON lines and as Parquet

Rates are per second of processor time, so they are valid on a busy machine too; wall-clock rates are beside them.
"""

import tempfile
import time
from pathlib import Path

import click
import pandas as pd
from memory import _write_table

from linda.augmentation import Augmenter
from linda.file_runs.file_pipeline import augment_file


@click.command()
@click.option("--rows", default=100_000, show_default=True)
@click.option("--words", default=10, show_default=True, help="Words per text.")
@click.option("--block-rows", default=20_000, show_default=True)
def main(rows: int, words: int, block_rows: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        lines = _write_table(Path(name) / "in.jsonl", rows, words, classes=6)
        pd.read_json(lines, lines=True).to_parquet(Path(name) / "in.parquet")
        for table in (lines, Path(name) / "in.parquet"):
            output = Path(name) / f"{table.name}-parts"
            begun, cpu = time.monotonic(), time.process_time()
            augment_file(Augmenter(method="eda"), table, f"{output}/", block_rows=block_rows, block_range=(0, 0))
            rate, wall_clock = rows / (time.process_time() - cpu), rows / (time.monotonic() - begun)
            size = sum(file.stat().st_size for file in (output / "_work").glob("*.arrow")) / rows
            click.echo(
                f"{table.suffix:<9}{rate:>9,.0f} rows/s of a core ({wall_clock:,.0f} wall-clock), "
                f"blocks of {size:.0f} bytes per row"
            )


if __name__ == "__main__":
    main()
