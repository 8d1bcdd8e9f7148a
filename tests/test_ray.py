"""The same bytes from a Ray cluster as from one process, also when a machine or the driver dies."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from linda.cli import main
from ray_cluster import RayCluster, three_nodes

pytest.importorskip("ray", reason="Ray is not installed: pip install 'linda[ray]'")

BLOCKS = 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with three_nodes() as started:
        yield started


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [{"text": f"The cat of house {n} was seen by {n % 7} people.", "label": n % 3} for n in range(BLOCKS * 50)]
    folder = tmp_path_factory.mktemp("ray")
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run_here(command(folder / "in.jsonl", folder / "whole.parquet"))
    return folder / "in.jsonl"


def command(source: Path, output: Path, *arguments: str, per_row: int = 4) -> list[str]:
    settings = ("--method", "eda", "--block-rows", "50", "--per-row", str(per_row))
    return [sys.executable, "-m", "linda", "augment", str(source), "--output", str(output), *settings, *arguments]


def on_ray(cluster: RayCluster) -> tuple[str, ...]:
    return ("--on", "ray", "--ray-address", cluster.address)


def run(cluster: RayCluster, arguments: list[str], cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(arguments, capture_output=True, text=True, env=cluster.environment, cwd=cwd, timeout=120)


def run_here(arguments: list[str]) -> None:
    """In this process, which has imported everything."""
    assert arguments[:3] == [sys.executable, "-m", "linda"]
    result = CliRunner().invoke(main, arguments[3:])
    assert result.exit_code == 0, result.output


def wait_for_parts(process: "subprocess.Popen[bytes]", output: Path, count: int) -> None:
    while (
        process.poll() is None
        and len(list(output.with_name(f".{output.name}.linda-journal").glob("part-*.parquet"))) < count
    ):
        time.sleep(0.01)


def test_a_driver_that_dies_loses_nothing(cluster: RayCluster, source: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    process = subprocess.Popen(
        command(source, output, *on_ray(cluster)), stderr=subprocess.DEVNULL, env=cluster.environment
    )
    wait_for_parts(process, output, 3)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not output.exists()
    run(cluster, command(source, output, "--resume", *on_ray(cluster))).check_returncode()
    assert output.read_bytes() == (source.parent / "whole.parquet").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.parquet"]


def test_a_shuffled_table_gives_the_same_bytes(cluster: RayCluster, source: Path, tmp_path: Path) -> None:
    run_here(command(source, tmp_path / "here.parquet", "--shuffle"))
    run(cluster, command(source, tmp_path / "ray.parquet", "--shuffle", *on_ray(cluster))).check_returncode()
    assert (tmp_path / "ray.parquet").read_bytes() == (tmp_path / "here.parquet").read_bytes()
    assert (tmp_path / "here.parquet").read_bytes() != (source.parent / "whole.parquet").read_bytes()


# --- linda bench ----------------------------------------------------------------------------------------------


def bench(source: Path, output: str, *arguments: str) -> list[str]:
    """With paths that are relative to the folder of the source."""
    data = ("--train", source.name, "--test", source.name, "--test-size", "100", "--shots", "10", "--student", "tfidf")
    methods = ("--methods", "vanilla,eda", "--seeds", "8", "--folds", "2")
    return [sys.executable, "-m", "linda", "bench", "--output", output, *data, *methods, *arguments]


def cells(folder: Path) -> dict[str, dict[str, Any]]:
    """Everything but what the clock and the machine decide."""
    measured = ("date", "machine", "seconds")
    found = {file.name: json.loads(file.read_text()) for file in (folder / "cells").glob("*.json")}
    return {name: {key: cell[key] for key in cell if key not in measured} for name, cell in found.items()}


def test_the_cells_of_a_benchmark_are_those_of_this_machine(
    cluster: RayCluster, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = source.parent
    monkeypatch.chdir(folder)
    run_here(bench(source, "here", "--workers", "1"))
    process = subprocess.Popen(
        bench(source, "ray", *on_ray(cluster)), stderr=subprocess.DEVNULL, env=cluster.environment, cwd=folder
    )
    while process.poll() is None and len(list((folder / "ray" / "cells").glob("*.json"))) < 3:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    written = {file: file.stat().st_mtime_ns for file in (folder / "ray" / "cells").glob("*.json")}
    assert 3 <= len(written) < 16
    run(cluster, bench(source, "ray", *on_ray(cluster)), cwd=folder).check_returncode()
    assert cells(folder / "ray") == cells(folder / "here")
    assert {file: file.stat().st_mtime_ns for file in written} == written  # not computed again
    results = [(folder / name / "results.csv").read_text() for name in ("ray", "here")]
    assert results[0] == results[1]


def test_an_error_of_a_cell_is_told_in_one_line(cluster: RayCluster, source: Path) -> None:
    arguments = ("--methods", "backtranslation", "--translate", "no-such", "no-such", *on_ray(cluster))
    done = run(cluster, bench(source, "broken", *arguments), cwd=source.parent)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("linda: in.10-shot.backtranslation.seed")
    assert "no-such" in done.stderr
    assert not (source.parent / "broken").exists()


def test_the_actor_is_a_function_of_ray_data(cluster: RayCluster, source: Path, tmp_path: Path) -> None:
    """In a separate process, since a process can be connected to only one cluster."""
    script = f"""
import ray, ray.data
from linda import Augmenter, augment_file
from linda.file_runs.ray_executor import BlockActor
augmenter = Augmenter(method="eda", per_row=4)
options = dict(block_rows=50)
augment_file(augmenter, {str(source)!r}, "out/", block_range=(0, 0), **options)
ray.init({cluster.address!r}, logging_level="ERROR", log_to_driver=False)
blocks = ray.data.from_items([{{"block": number}} for number in range({BLOCKS})])
blocks.map_batches(BlockActor, fn_constructor_args=({str(tmp_path / "out")!r}, augmenter), batch_size=1, concurrency=2,
    num_cpus=1).materialize()
print(augment_file(augmenter, {str(source)!r}, "out/", join=True, **options))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=cluster.environment,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1,000 rows in, ")
    parts = [
        pq.read_table(path).replace_schema_metadata() for path in sorted((tmp_path / "out").glob("part-*.parquet"))
    ]
    whole = pq.read_table(source.parent / "whole.parquet").replace_schema_metadata()
    assert pa.concat_tables(parts).equals(whole)


def test_an_actor_may_fail_to_start_now_and_then(cluster: RayCluster, tmp_path: Path) -> None:
    """Every other start fails, by an exception and by the death of the process; attempts are counted in a row."""
    script = """
import os, sys
from linda.file_runs import ray_pool

class Worker:
    def __init__(self, starts):
        with open(starts, "ab") as file:
            self.start = file.write(b"x") and file.tell()
        if self.start == 1:
            raise RuntimeError("the first start fails")
        if self.start == 3:
            os._exit(1)
        os.environ["OMP_NUM_THREADS"] = "7"

    def ready(self):
        ray_pool.use_assigned_threads()

    def compute(self, item):
        if self.start == 2:
            os._exit(1)
        return item, os.environ["OMP_NUM_THREADS"]

ray_pool._ATTEMPTS = 2
pool = ray_pool.RayPool.connect(sys.argv[1], workers=1)
print(sorted(pool.completed(Worker, (sys.argv[2],), [1, 2])), os.path.getsize(sys.argv[2]))
"""
    done = run(cluster, [sys.executable, "-c", script, cluster.address, str(tmp_path / "starts")])
    assert done.returncode == 0, done.stderr
    assert "[(1, '1'), (2, '1')] 4\n" in done.stdout


def test_an_error_of_a_worker_is_told_in_one_line(cluster: RayCluster, source: Path, tmp_path: Path) -> None:
    arguments = ("--method", "linda", "--model", str(tmp_path / "nowhere"), *on_ray(cluster))
    done = run(cluster, command(source, tmp_path / "out.csv", *arguments))
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("linda: ")
    assert "nowhere" in done.stderr


def test_a_gpu_that_is_not_there_is_told(cluster: RayCluster, source: Path, tmp_path: Path) -> None:
    arguments = ("--gpus-per-worker", "1", *on_ray(cluster))
    done = run(cluster, command(source, tmp_path / "out.csv", *arguments))
    assert done.returncode == 2
    assert "0 GPUs; a worker needs 1 CPU and 1 GPUs" in done.stderr


def test_a_machine_that_dies_loses_nothing(cluster: RayCluster, source: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    process = subprocess.Popen(
        command(source, output, *on_ray(cluster)), stderr=subprocess.PIPE, env=cluster.environment
    )
    wait_for_parts(process, output, 3)
    cluster.kill_raylet()
    assert process.poll() is None
    errors = process.communicate(timeout=120)[1]
    assert process.returncode == 0, errors
    assert b"1,000 rows in, " in errors
    assert output.read_bytes() == (source.parent / "whole.parquet").read_bytes()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nonsense", "ray://127.0.0.1:1"])
def test_nothing_listens(source: Path, tmp_path: Path, address: str) -> None:
    start = time.monotonic()
    arguments = ["augment", str(source), "--output", f"{tmp_path}/out.csv", "--on", "ray", "--ray-address", address]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"linda: no Ray cluster at '{address}'; ")
    assert result.stderr.count("\n") == 1
    assert time.monotonic() - start < 10
    assert list(tmp_path.iterdir()) == []
