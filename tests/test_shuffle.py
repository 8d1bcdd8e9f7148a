"""A table in random order: in bounded memory, by the seed, the same whatever computes the blocks."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from linda.augmentation import Augmenter
from linda.cli import main
from linda.errors import LindaError
from linda.file_runs.file_pipeline import augment_file
from linda.files.shuffle import shuffled
from linda.planning.plan import Plan, PlanRow
from splice import Splice, sentences

TEXTS = sentences(60)


def batches(rows: int, size: int) -> list[pa.RecordBatch]:
    return [
        pa.RecordBatch.from_pydict({"text": [f"row {n}" for n in range(first, min(first + size, rows))]})
        for first in range(0, rows, size)
    ]


def order(rows: int, seed: int, folder: Path | None = None, size: int = 50, **options: Any) -> list[int]:
    found = []
    for batch in shuffled(batches(rows, size), seed, folder, **options):
        texts, numbers = (column.to_pylist() for column in batch.columns)
        assert texts == [f"row {number}" for number in numbers]
        found += numbers
    return found


# In memory, in one step, in several.
@pytest.mark.parametrize(("rows", "max_bytes"), [(3000, 10**6), (3000, 2000), (1000, 50)])
def test_every_row_comes_once_in_the_order_of_the_seed(tmp_path: Path, rows: int, max_bytes: int) -> None:
    found = order(rows, 7, tmp_path, max_bytes=max_bytes)
    assert sorted(found) == list(range(rows))
    assert found == order(rows, 7, tmp_path, max_bytes=max_bytes)
    assert found != order(rows, 8, tmp_path, max_bytes=max_bytes)
    mean = (rows - 1) / 2
    assert abs(sum(place * number for place, number in enumerate(found)) / rows / mean**2 - 1) < 0.05  # unrelated
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("max_bytes", [10**6, 1])
def test_every_order_is_equally_likely(max_bytes: int) -> None:
    counts = Counter(tuple(order(3, seed, size=1, max_bytes=max_bytes)) for seed in range(300))
    assert len(counts) == 6
    assert max(counts.values()) < 80  # 50 each on average, with a standard deviation of 6.5


def test_no_rows_are_no_batches() -> None:
    assert list(shuffled([], 0)) == []


def test_temporary_files_are_removed_when_nobody_reads_on(tmp_path: Path) -> None:
    stream = shuffled(batches(1000, 50), 0, tmp_path, max_bytes=1000)
    next(stream)
    assert list(tmp_path.iterdir())
    stream.close()
    assert list(tmp_path.iterdir()) == []


# --- in a run -------------------------------------------------------------------------------------------------


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Sorted by label: without a shuffle, blocks of 20 rows have one label each."""
    path = tmp_path / "in.jsonl"
    rows = [{"text": text, "label": "abc"[row // 20], "id": row} for row, text in enumerate(TEXTS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_blocks_are_samples_and_parents_are_rows_of_the_input(source: Path, tmp_path: Path) -> None:
    augmenter = Augmenter(method=Splice(), ratio="0.5", partners="different", seed=3)
    with pytest.raises(LindaError, match=r"^in every block, all rows have the same label.*shuffle"):
        augment_file(augmenter, source, tmp_path / "out.jsonl", block_rows=20)
    augment_file(augmenter, source, tmp_path / "out.jsonl", block_rows=20, shuffle=True)
    rows = read(tmp_path / "out.jsonl")
    originals = [row["id"] for row in rows if row["method"] == "original"]
    assert sorted(originals) == list(range(60))
    assert originals != sorted(originals)
    new = [row for row in rows if row["method"] != "original"]
    assert len(new) > 40
    for row in new:
        assert Splice().texts([TEXTS[row["parent_a"]]], [TEXTS[row["parent_b"]]], [0.5], [0]) == [row["text"]]


def command(source: Path, output: Path | str, *arguments: str) -> list[str]:
    settings = ["--method", "eda", "--block-rows", "20", "--shuffle", "--seed", "5"]
    return ["augment", str(source), "--output", str(output), *settings, *arguments]


def test_the_same_bytes_from_every_executor(source: Path, tmp_path: Path) -> None:
    one, workers, ranges = (tmp_path / name for name in ("one.parquet", "workers.parquet", "ranges.parquet"))
    in_workers = [sys.executable, "-m", "linda", *command(source, workers, "--workers", "2")]
    subprocess.run(in_workers, check=True, capture_output=True)
    runs = ((one,), (ranges, "--block-range", "1:3"), (ranges, "--block-range", "0:1"), (ranges, "--join"))
    for output, *arguments in runs:
        assert CliRunner().invoke(main, command(source, output, *arguments)).exit_code == 0
    assert len({output.read_bytes() for output in (one, workers, ranges)}) == 1


def test_a_bad_row_has_its_number_in_the_input(source: Path, tmp_path: Path) -> None:
    with source.open("a") as file:
        file.write('{"text": "", "label": "a", "id": 60}\n')
    result = CliRunner().invoke(main, command(source, tmp_path / "out.jsonl"))
    assert result.exit_code == 2
    assert "row 60: 'text' is empty" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_a_shuffle_is_part_of_the_run(source: Path, tmp_path: Path) -> None:
    assert CliRunner().invoke(main, command(source, f"{tmp_path}/parts/", "--block-range", "0:1")).exit_code == 0
    arguments = [argument for argument in command(source, f"{tmp_path}/parts/", "--resume") if argument != "--shuffle"]
    result = CliRunner().invoke(main, arguments)
    assert "has shuffle True, this one False" in result.stderr


def test_a_plan_names_rows_that_a_shuffle_moves(source: Path, tmp_path: Path) -> None:
    plan = Plan.of([PlanRow(0, 1, 0.5, 1)])
    with pytest.raises(LindaError, match="which --shuffle changes"):
        augment_file(Augmenter(method="eda"), source, tmp_path / "out.jsonl", plan=plan, shuffle=True)
    result = CliRunner().invoke(main, command(source, tmp_path / "out.jsonl", "--save-plan", "-"))
    assert "leave out --save-plan" in result.stderr
