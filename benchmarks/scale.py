"""Throughput and output of Ray against worker processes, on a real cluster of three nodes on this machine.

    export PYTHONPATH=scripts
    python benchmarks/scale.py --rows 400000 --block-rows 20000 --repeats 3                  # EDA, two workers
    python benchmarks/scale.py --method linda --rows 2000 --block-rows 200 --repeats 3
    python benchmarks/scale.py --workers 3 --kill node --kill driver                         # 20,000 rows with EDA
    python benchmarks/scale.py --workers 3 --method linda --rows 600 --block-rows 100 --kill node --kill driver

Seconds include the start of the command and of the actors (a few seconds), so compare rates of tables that take much
longer. With --repeats, both take turns and rates are medians. On a busy machine, look at rows per second of processor
time: of the command and all its processes, or of the command and the whole cluster. Ray's workers get the priority of
the processes (Ray's default is a low one), so that other work slows down both alike. With --kill, the raylet of a node
or the driver is killed (SIGKILL) after half of the blocks, in a separate run each; a killed driver is started again
with --resume.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median

import click
import psutil

from ray_cluster import RayCluster, three_nodes

PRIORITY_OF_RAY = "RAY_worker_niceness"

NOUNS = ("river", "city", "man", "woman", "house", "film", "book", "road", "tree", "garden", "market", "letter")
VERBS = ("was seen in", "is far from", "was sold by", "has come to", "looks like", "stood near", "was made for")
PLACES = ("the old garden", "a small town", "the winter market", "the red house", "my first story", "that train")


@click.command()
@click.option("--rows", default=20_000, show_default=True)
@click.option("--block-rows", default=1_000, show_default=True)
@click.option("--method", default="eda", show_default=True)
@click.option("--workers", default=2, show_default=True, help="Number of processes and of actors.")
@click.option("--repeats", default=1, show_default=True, help="Runs of each kind.")
@click.option(
    "--kill", "victims", multiple=True, type=click.Choice(["node", "driver"]), help="Kill this in an additional run."
)
def main(rows: int, block_rows: int, method: str, workers: int, repeats: int, victims: tuple[str, ...]) -> None:
    blocks = -(-rows // block_rows)
    click.echo(f"{method}, {rows:,} rows in {blocks} blocks, {workers} workers")
    os.environ[PRIORITY_OF_RAY] = str(os.nice(0))
    with tempfile.TemporaryDirectory() as name, three_nodes() as cluster:
        folder = Path(name)
        table = _write_table(folder / "in.jsonl", rows)
        settings = ["--method", method, "--block-rows", str(block_rows), "--workers", str(workers)]
        on_ray = [*settings, "--on", "ray", "--ray-address", cluster.address]
        here, there = folder / "here.parquet", folder / "ray.parquet"
        runs: dict[str, list[Cost]] = {"processes": [], "Ray": []}
        same = True
        for _ in range(repeats):
            runs["processes"].append(_cost(cluster, table, here, settings))
            runs["Ray"].append(_cost(cluster, table, there, on_ray))
            same &= here.read_bytes() == there.read_bytes()
        for what, costs in runs.items():
            each = ", ".join(f"{cost.seconds:.1f}" for cost in costs)
            rate, of_processor = (rows / median(values) for values in _columns(costs))
            click.echo(f"  {what:<10}{rate:9,.1f} rows/s, {of_processor:9,.1f} per processor second ({each} s)")
        wall_clock, of_processor = (
            median(one) / median(other) for one, other in zip(*map(_columns, runs.values()), strict=True)
        )
        click.echo(f"  Ray: {wall_clock:.2f} times the rows per second, {of_processor:.2f} per processor second")
        for victim in sorted(victims, key="driver".__ne__):  # a killed node does not come back
            _run_and_kill(cluster, table, there, on_ray, victim, blocks // 2)
            is_equal = here.read_bytes() == there.read_bytes()
            click.echo(f"  {victim} killed: {'the same bytes' if is_equal else 'OTHER BYTES'}")
            same &= is_equal
    click.echo(f"  the same bytes: {'yes' if same else 'NO'}")
    sys.exit(0 if same else 1)


@dataclass(frozen=True)
class Cost:
    """Wall-clock seconds and processor seconds of a run."""

    seconds: float
    processor: float


def _columns(costs: list[Cost]) -> tuple[list[float], list[float]]:
    return [cost.seconds for cost in costs], [cost.processor for cost in costs]


def _write_table(path: Path, rows: int) -> Path:
    random = Random(0)
    with path.open("w") as file:
        for row in range(rows):
            first, second = random.choices(NOUNS, k=2)
            text = f"The {first} {random.choice(VERBS)} the {second} of {random.choice(PLACES)} in {row}."
            file.write(json.dumps({"text": text, "label": row % 6}) + "\n")
    return path


def _cost(cluster: RayCluster, table: Path, output: Path, settings: list[str]) -> Cost:
    before = os.times()
    with ClusterClock(cluster) as clock:
        _finish(_started(cluster, table, output, settings))
    after = os.times()  # of children that have ended: the command, and its worker processes
    own = after.children_user - before.children_user + after.children_system - before.children_system
    return Cost(after.elapsed - before.elapsed, own + clock.seconds)


class ClusterClock:
    """Processor time of all processes of a cluster. Actors end with a run, so the time is read while they live."""

    def __init__(self, cluster: RayCluster) -> None:
        self._cluster = cluster
        self._seen: dict[tuple[int, float], float] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.seconds = 0.0

    def __enter__(self) -> "ClusterClock":
        self._read()
        self._before = sum(self._seen.values())
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()
        self.seconds = sum(self._seen.values()) - self._before

    def _watch(self) -> None:
        while not self._is_over.wait(0.5):
            self._read()

    def _read(self) -> None:
        nodes = [psutil.Process(node.pid) for node in self._cluster.nodes if node.poll() is None]
        for process in [*nodes, *(child for node in nodes for child in node.children(recursive=True))]:
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                self._seen[process.pid, process.create_time()] = times.user + times.system


def _run_and_kill(cluster: RayCluster, table: Path, output: Path, settings: list[str], victim: str, parts: int) -> None:
    """Complete a run whose node or driver is killed when `parts` parts exist."""
    process = _started(cluster, table, output, settings)
    folder = output.with_name(f".{output.name}.linda-journal")
    while process.poll() is None and len(list(folder.glob("part-*.parquet"))) < parts:
        time.sleep(0.01)
    if process.poll() is not None:
        raise SystemExit("the run ended before anything was killed; give more or larger blocks")
    if victim == "node":
        cluster.kill_raylet()
    else:
        process.kill()
        process.wait()
        process = _started(cluster, table, output, [*settings, "--resume"])
    _finish(process)


def _started(cluster: RayCluster, table: Path, output: Path, settings: list[str]) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "linda", "augment", str(table), "--output", str(output), *settings]
    return subprocess.Popen(command, env=cluster.environment)


def _finish(process: "subprocess.Popen[bytes]") -> None:
    if process.wait():
        raise SystemExit(f"failed: {process.args!r}")


if __name__ == "__main__":
    main()
