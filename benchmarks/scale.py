"""Throughput on Ray against worker processes, and the bytes of both: on a real cluster of three nodes on this machine.

    PYTHONPATH=scripts python benchmarks/scale.py                     # EDA: 20,000 rows in blocks of 1,000
    PYTHONPATH=scripts python benchmarks/scale.py --method linda --rows 600 --block-rows 100

Times include start-up of the command and of the actors. With --kill, the raylet of a node is killed half-way.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

import click

from ray_cluster import RayCluster, three_nodes

NOUNS = ("river", "city", "man", "woman", "house", "film", "book", "road", "tree", "garden", "market", "letter")
VERBS = ("was seen in", "is far from", "was sold by", "has come to", "looks like", "stood near", "was made for")
PLACES = ("the old garden", "a small town", "the winter market", "the red house", "my first story", "that train")


@click.command()
@click.option("--rows", default=20_000, show_default=True)
@click.option("--block-rows", default=1_000, show_default=True)
@click.option("--method", default="eda", show_default=True)
@click.option("--workers", default=2, show_default=True, help="Processes, and actors.")
@click.option("--kill", is_flag=True, help="Kill the raylet of a node after half of the blocks.")
def main(rows: int, block_rows: int, method: str, workers: int, kill: bool) -> None:
    with tempfile.TemporaryDirectory() as name, three_nodes() as cluster:
        folder = Path(name)
        table = _write_table(folder / "in.jsonl", rows)
        settings = ["--method", method, "--block-rows", str(block_rows), "--workers", str(workers)]
        here = _seconds(cluster, table, folder / "here.parquet", settings)
        on_ray = [*settings, "--on", "ray", "--ray-address", cluster.address]
        blocks = -(-rows // block_rows)
        there = _seconds(cluster, table, folder / "ray.parquet", on_ray, blocks // 2 if kill else None)
        same = (folder / "here.parquet").read_bytes() == (folder / "ray.parquet").read_bytes()
    click.echo(f"{method}, {rows:,} rows in {blocks} blocks, {workers} workers{', one node killed' if kill else ''}")
    click.echo(f"  processes {rows / here:9,.1f} rows/s\n  Ray       {rows / there:9,.1f} rows/s ({here / there:.2f})")
    click.echo(f"  the same bytes: {'yes' if same else 'NO'}")
    sys.exit(0 if same else 1)


def _write_table(path: Path, rows: int) -> Path:
    random = Random(0)
    with path.open("w") as file:
        for row in range(rows):
            first, second = random.choices(NOUNS, k=2)
            text = f"The {first} {random.choice(VERBS)} the {second} of {random.choice(PLACES)} in {row}."
            file.write(json.dumps({"text": text, "label": row % 6}) + "\n")
    return path


def _seconds(
    cluster: RayCluster, table: Path, output: Path, settings: list[str], kill_after: int | None = None
) -> float:
    start = time.monotonic()
    command = [sys.executable, "-m", "linda", "augment", str(table), "--output", str(output), *settings]
    process = subprocess.Popen(command, env=cluster.environment)
    if kill_after is not None:
        parts = output.with_name(f".{output.name}.linda-journal")
        while process.poll() is None and len(list(parts.glob("part-*.parquet"))) < kill_after:
            time.sleep(0.01)
        cluster.kill_raylet()
    if process.wait():
        raise SystemExit(f"failed: {' '.join(command)}")
    return time.monotonic() - start


if __name__ == "__main__":
    main()
