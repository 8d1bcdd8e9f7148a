"""A table in blocks: the same rows in any order of computing, from any number of processes."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from linda.augmentation import Augmenter
from linda.augmentation.settings import AugmentationSettings
from linda.augmentation.summary import RunSummary
from linda.cli import main
from linda.engines import linear
from linda.errors import LindaError
from linda.file_runs import blocks
from linda.file_runs.blocks import BlockedTable
from linda.file_runs.file_pipeline import augment_file, draw_table_plan
from linda.file_runs.ray_executor import BlockActor
from linda.files.spool import cut
from linda.planning.plan import Plan, PlanRow
from splice import Splice, sentences

TEXTS = sentences(50)
TABLE = BlockedTable.of(["no", "yes"], [(20, 0, [10, 10]), (20, 2, [9, 9]), (10, 0, [5, 5])])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    rows = [{"text": text, "label": ["no", "yes"][row % 2], "id": row} for row, text in enumerate(TEXTS)]
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run(source: Path | str, output: Path | str, **options: Any) -> RunSummary:
    names = ("block_rows", "block_range", "join", "resume", "restart", "plan", "on_note")
    of_run = {"block_rows": 20, **{name: options.pop(name) for name in names if name in options}}
    return augment_file(
        Augmenter(**{"method": Splice(), "ratio": "0.2-0.8", "batch_size": 4, **options}), source, output, **of_run
    )


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# --- blocks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [[50], [7] * 7 + [1], [20, 20, 10], [1] * 50])
def test_batches_are_cut_into_blocks(sizes: list[int]) -> None:
    numbers = iter(range(50))
    batches = [pa.RecordBatch.from_pydict({"n": [next(numbers) for _ in range(size)]}) for size in sizes]
    parts = [[n for batch in block for n in batch.to_pydict()["n"]] for block in cut(batches, 20)]
    assert parts == [list(range(20)), list(range(20, 40)), list(range(40, 50))]


def test_a_table_knows_its_counts() -> None:
    assert (TABLE.rows, TABLE.skipped, TABLE.counts) == (50, 2, {"no": 24, "yes": 24})
    assert [block.first_row for block in TABLE.blocks] == [0, 20, 40]
    assert TABLE.blocks[2].counts_before == {"no": 19, "yes": 19}
    assert BlockedTable.from_json(json.loads(json.dumps(TABLE.to_json()))) == TABLE


def test_a_block_has_a_seed_of_its_own_and_its_share_of_the_total() -> None:
    settings = AugmentationSettings(method="eda", seed=7, total=25)
    own = [blocks.block_settings(settings, block, TABLE) for block in TABLE.blocks]
    assert own[0].seed == 7
    assert len({each.seed for each in own}) == 3
    assert [each.total for each in own] == [10, 9, 6]
    again = [blocks.block_settings(settings, block, TABLE) for block in TABLE.blocks]
    assert own == again


def test_shares_add_up() -> None:
    for total in (1, 2, 7, 1000):
        starts = np.cumsum([0, *(block.kept for block in TABLE.blocks)])
        shares = [
            blocks.share(total, int(start), block.kept, 48) for start, block in zip(starts, TABLE.blocks, strict=False)
        ]
        assert sum(shares) == total


# --- from file to file ----------------------------------------------------------------------------------------


def test_rows_are_mixed_within_their_block(source: Path, tmp_path: Path) -> None:
    notes: list[str] = []
    summary = run(source, tmp_path / "out.jsonl", on_note=notes.append)
    rows = read(tmp_path / "out.jsonl")
    assert notes == ["3 blocks of 20 rows"]
    assert (summary.rows, summary.tally.planned, summary.counts) == (50, 50, {"no": 25, "yes": 25})
    assert [row["id"] for row in rows if row["method"] == "original"] == list(range(50))
    new = [row for row in rows if row["method"] == "splice"]
    assert len(new) == summary.tally.made > 40
    for row in new:
        assert row["parent_a"] // 20 == row["parent_b"] // 20
        assert row["text"].split()[0] in TEXTS[row["parent_a"]].split()
        assert row["text"].split()[-1] in TEXTS[row["parent_b"]].split()
    assert len({row["plan_seed"] for row in new}) == len(new)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl", "out.jsonl.labels.json"]


def test_a_table_that_fits_in_a_block_does_not_depend_on_its_size(source: Path, tmp_path: Path) -> None:
    for size in (50, 51, 100_000):
        run(source, tmp_path / f"{size}.parquet", block_rows=size)
    assert (tmp_path / "50.parquet").read_bytes() == (tmp_path / "51.parquet").read_bytes()
    assert (tmp_path / "50.parquet").read_bytes() == (tmp_path / "100000.parquet").read_bytes()


@pytest.mark.parametrize("output", ["out.parquet", "out.csv"])
def test_ranges_in_any_order_join_to_the_same_file(source: Path, tmp_path: Path, output: str) -> None:
    whole = run(source, tmp_path / f"whole-{output}")
    for block_range in ((2, 9), (0, 1), (1, 2), (0, 1), (0, 0)):
        run(source, tmp_path / output, block_range=block_range)
        assert not (tmp_path / output).exists()
    joined = run(source, tmp_path / output, join=True)
    assert joined.tally == whole.tally
    assert (tmp_path / output).read_bytes() == (tmp_path / f"whole-{output}").read_bytes()
    assert not (tmp_path / f".{output}.linda-journal").exists()


def test_a_missing_part_is_named(source: Path, tmp_path: Path) -> None:
    with pytest.raises(LindaError, match="contains no parts"):
        run(source, tmp_path / "out.csv", join=True)
    run(source, tmp_path / "out.csv", block_range=(0, 1))
    with pytest.raises(LindaError, match=r"part-00001\.parquet is missing; compute it with --block-range 1:2"):
        run(source, tmp_path / "out.csv", join=True)
    run(source, tmp_path / "out.csv", resume=True)  # computes what is missing
    run(source, tmp_path / "whole.csv")
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_a_part_of_another_run_is_not_joined(source: Path, tmp_path: Path) -> None:
    run(source, f"{tmp_path}/other/", seed=1)
    run(source, f"{tmp_path}/out/")
    (tmp_path / "other" / "part-00001.parquet").replace(tmp_path / "out" / "part-00001.parquet")
    with pytest.raises(LindaError, match=r"part-00001\.parquet belongs to a run with other input"):
        run(source, f"{tmp_path}/out/", join=True)


def test_a_part_of_another_run_is_found_before_anything_is_computed(source: Path, tmp_path: Path) -> None:
    run(source, f"{tmp_path}/other/", seed=1)
    run(source, f"{tmp_path}/out/")
    (tmp_path / "other" / "part-00001.parquet").replace(tmp_path / "out" / "part-00001.parquet")
    (tmp_path / "out" / "part-00000.parquet").unlink()
    method = Splice()
    with pytest.raises(LindaError, match=r"part-00001\.parquet belongs to a run with other input"):
        run(source, f"{tmp_path}/out/", method=method, resume=True)
    assert method.batches == []


def test_a_processor_with_other_weights_computes_no_part(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts of the int8 engine may differ between 7-bit and 8-bit weights."""
    output, bits = f"{tmp_path}/out/", linear.weight_bits()
    run(source, output, method="linda", block_range=(0, 0))
    monkeypatch.setattr(linear, "weight_bits", lambda: 15 - bits)
    message = f"the int8 engine of .* has {15 - bits}-bit weights, this run {bits}-bit ones"
    with pytest.raises(LindaError, match=message):
        run(source, output, method="linda", block_range=(0, 1))
    with pytest.raises(LindaError, match=message):
        BlockActor(output, Augmenter(method="linda")).compute(0)
    with pytest.raises(LindaError, match=r"part-00000\.parquet is missing"):  # any machine can join
        run(source, output, method="linda", join=True)
    run(source, output, method="eda", restart=True)  # computes nothing in 8 bits


def test_a_folder_of_parts_is_an_output(source: Path, tmp_path: Path) -> None:
    output, method = f"{tmp_path}/out/", Splice()
    whole = run(source, tmp_path / "whole.parquet")
    assert run(source, output).tally == whole.tally
    names = ["_manifest.json", "part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]
    assert sorted(path.name for path in Path(output).iterdir()) == names
    assert pd.read_parquet(output).equals(pd.read_parquet(tmp_path / "whole.parquet"))
    # a part that exists is done
    assert run(source, output, method=method).tally == whole.tally
    assert method.batches == []
    with pytest.raises(LindaError, match="has seed 0, this one 1"):
        run(source, output, seed=1)
    (Path(output) / names[2]).unlink()
    with pytest.raises(LindaError, match="unfinished run"):
        run(source, output)
    assert run(source, output, method=method, resume=True).tally == whole.tally
    assert sum(method.batches) == 20
    assert pd.read_parquet(output).equals(pd.read_parquet(tmp_path / "whole.parquet"))
    (Path(output) / ".part-00001.parquet.0123.part").write_text("half a part of a killed process")
    run(source, output, seed=1, restart=True)
    assert sorted(path.name for path in Path(output).iterdir()) == names
    assert not pd.read_parquet(output).equals(pd.read_parquet(tmp_path / "whole.parquet"))


def test_a_remote_folder_is_an_output_and_an_input(source: Path, tmp_path: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe("/tables/in/a.jsonl", source.read_bytes())
    try:
        whole = run(source, tmp_path / "whole.parquet")
        assert run("memory://tables/in", "memory://tables/out/").tally == whole.tally
        assert sorted(memory.ls("/tables/out", detail=False))[1:] == [
            f"/tables/out/part-0000{n}.parquet" for n in range(3)
        ]
        memory.rm("/tables/out/part-00001.parquet")
        run("memory://tables/in/a.jsonl", "memory://tables/out/", resume=True)
        parts = [pq.read_table(memory.open(f"/tables/out/part-0000{number}.parquet")) for number in range(3)]
        rows = [row for part in parts for row in part.to_pylist()]
        assert rows == pq.read_table(tmp_path / "whole.parquet").to_pylist()
        with pytest.raises(LindaError, match="end it in /"):
            run(source, "memory://tables/out.parquet")
    finally:
        memory.rm("/tables", recursive=True)


def test_what_a_killed_upload_leaves_is_no_part(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is killed between the upload of a part and its rename."""
    from fsspec.implementations.local import LocalFileSystem

    folder, rename = tmp_path / "out", LocalFileSystem.mv

    def killed(self: Any, old: str, new: str, **options: Any) -> None:
        if new.endswith("part-00001.parquet"):
            raise KeyboardInterrupt
        rename(self, old, new, **options)

    monkeypatch.setattr(LocalFileSystem, "mv", killed)
    with pytest.raises(KeyboardInterrupt):
        run(source, f"file://{folder}/")
    monkeypatch.undo()
    [left] = folder.glob("*part-00001.parquet*.part")
    assert pd.read_parquet(folder).equals(pd.read_parquet(folder / "part-00000.parquet"))
    run(source, f"file://{folder}/", resume=True)
    assert not left.exists()
    run(source, tmp_path / "whole.parquet")
    assert pd.read_parquet(folder).equals(pd.read_parquet(tmp_path / "whole.parquet"))


def test_a_folder_of_files_is_one_table(source: Path, tmp_path: Path) -> None:
    run(source, tmp_path / "whole.csv")
    folder = tmp_path / "files"
    folder.mkdir()
    lines = source.read_text().splitlines(keepends=True)
    (folder / "a.jsonl").write_text("".join(lines[:13]))
    pd.read_json(source, lines=True)[13:].to_parquet(folder / "b.parquet")
    (folder / "notes.txt").write_text("not a table")
    (folder / "_SUCCESS").write_text("")
    run(folder, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_files_that_differ_or_are_damaged_are_named(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    frame = pd.read_json(source, lines=True)
    for number in range(4):
        frame.to_parquet(folder / f"{number}.parquet")
    frame.rename(columns={"id": "number"}).to_parquet(folder / "2.parquet")
    message = r"2\.parquet has a different schema from .*0\.parquet: column 'id' is missing"
    with pytest.raises(LindaError, match=message):
        run(folder, tmp_path / "out.csv")
    frame.assign(id="x").to_parquet(folder / "2.parquet")
    with pytest.raises(LindaError, match=r"2\.parquet has a different schema .* 'id' is .*string, not int64"):
        run(folder, tmp_path / "out.csv")
    whole = (folder / "1.parquet").read_bytes()
    (folder / "2.parquet").write_bytes(whole[:100])
    with pytest.raises(LindaError, match=r"2\.parquet is damaged, or not a Parquet file"):
        run(folder, tmp_path / "out.csv")
    (folder / "2.parquet").write_bytes(whole[:4] + bytes(400) + whole[404:])
    with pytest.raises(LindaError, match=r"2\.parquet is damaged"):
        run(folder, tmp_path / "out.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files", "in.jsonl"]


def test_a_bad_row_is_numbered_in_the_table(source: Path, tmp_path: Path) -> None:
    with source.open("a") as file:
        file.write(json.dumps({"text": " ", "label": "no", "id": 50}) + "\n")
    with pytest.raises(LindaError, match=r"row 50: 'text' is empty"):
        run(source, tmp_path / "out.csv")
    assert run(source, tmp_path / "out.csv", skip_empty=True).skipped == 1


def test_the_file_of_class_names_replaces_no_other(source: Path, tmp_path: Path) -> None:
    (tmp_path / "out.csv.labels.json").write_text("[1, 2]")
    with pytest.raises(LindaError, match=r"out\.csv\.labels\.json exists and does not contain class names"):
        run(source, tmp_path / "out.csv")
    run(source, tmp_path / "other.csv")
    run(source, tmp_path / "other.csv")  # an earlier one is replaced


def test_labels_of_two_types_are_told(tmp_path: Path) -> None:
    rows = [{"text": text, "label": row % 2 if row < 20 else "yes"} for row, text in enumerate(TEXTS)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(LindaError, match="labels are of type str from row 20 on, earlier ones of type int"):
        run(tmp_path / "in.jsonl", tmp_path / "out.csv")


def test_a_class_may_be_missing_in_a_block(tmp_path: Path) -> None:
    rows = [{"text": text, "label": "abc"[row // 20]} for row, text in enumerate(TEXTS)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run(tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    probabilities = {
        tuple(row["label_probs"]) for row in read(tmp_path / "out.jsonl") if row["parent_a"] in range(20, 40)
    }
    assert probabilities == {(0.0, 1.0, 0.0)}
    with pytest.raises(LindaError, match="all rows have the same label"):
        run(tmp_path / "in.jsonl", tmp_path / "out.jsonl", partners="different")


def test_blocks_without_partners_are_told(source: Path, tmp_path: Path) -> None:
    notes: list[str] = []
    summary = run(source, tmp_path / "out.csv", block_rows=49, on_note=notes.append)
    assert summary.tally.planned == 49
    assert notes[1].startswith("1 rows have a label that no other row in their block has")
    assert notes[2].startswith("1 of 2 blocks have no rows that can be mixed")


def test_the_plan_of_a_table_is_that_of_its_blocks(source: Path, tmp_path: Path) -> None:
    plan = draw_table_plan(Augmenter(method=Splice(), ratio="0.2-0.8"), source, block_rows=20)
    run(source, tmp_path / "drawn.jsonl")
    run(source, tmp_path / "given.jsonl", plan=plan)
    assert (tmp_path / "given.jsonl").read_bytes() == (tmp_path / "drawn.jsonl").read_bytes()
    apart = Plan.of([PlanRow(1, 2, 0.5, 1), PlanRow(3, 30, 0.5, 2)])
    with pytest.raises(LindaError, match=r"row 1 of the plan mixes rows 3 and 30.*--block-rows to at least 50"):
        run(source, tmp_path / "out.jsonl", plan=apart)
    with pytest.raises(LindaError, match="refers to row 70"):
        run(source, tmp_path / "out.jsonl", plan=Plan.of([PlanRow(1, 70, 0.5, 1)]))


def test_the_total_is_divided_among_blocks(source: Path, tmp_path: Path) -> None:
    summary = run(source, tmp_path / "out.jsonl", total=7)
    assert summary.tally.planned == 7
    assert run(source, tmp_path / "out.jsonl", total=1).tally.planned == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block_range": (4, 5)}, "the block range is 4:5; the table has the blocks 0:3, give a range of these"),
        ({"block_range": (0, 1), "join": True}, "give only one"),
        ({"block_range": (0, 1), "restart": True}, "--restart deletes the parts of all ranges"),
        ({"block_rows": 0}, "block_rows is 0; it must be a whole number from 1 to 1,000,000,000"),
        ({"output": "-", "block_range": (0, 1)}, "standard output cannot be resumed"),
        ({"output": "/proc/parts/"}, "cannot write to /proc/parts"),
        ({"output": "nonsense://a/b/"}, "cannot open nonsense://a/b"),
    ],
)
def test_what_cannot_be_is_told(source: Path, tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(LindaError, match=message):
        run(source, **{"output": tmp_path / "out.csv", **options})


# --- processes ------------------------------------------------------------------------------------------------


def command(source: Path, output: str, *arguments: str) -> list[str]:
    settings = ("--method", "eda", "--block-rows", "60", "--batch-size", "8", "--per-row", "3")
    return [sys.executable, "-m", "linda", "augment", str(source), "--output", output, *settings, *arguments]


@pytest.fixture
def longer(tmp_path: Path) -> Path:
    rows = [{"text": f"The cat of house {n} was seen by {n % 7} people.", "label": n % 3} for n in range(300)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    subprocess.run(command(tmp_path / "in.jsonl", f"{tmp_path}/whole.csv"), check=True, capture_output=True)
    return tmp_path / "in.jsonl"


def test_kill_9_in_any_block_loses_nothing(longer: Path, tmp_path: Path) -> None:
    journal = tmp_path / ".out.csv.linda-journal"
    for block in (1, 3):
        process = subprocess.Popen(command(longer, f"{tmp_path}/out.csv", "--resume"), stderr=subprocess.DEVNULL)
        chunks = journal / "_work" / f"block-0000{block}" / "chunks.jsonl"
        while process.poll() is None and not chunks.exists():
            time.sleep(0.001)
        time.sleep(random.uniform(0, 0.03))
        process.kill()
        assert process.wait() == -signal.SIGKILL
        assert len(list(journal.glob("part-*.parquet"))) >= block
    assert not (tmp_path / "out.csv").exists()
    done = subprocess.run(command(longer, f"{tmp_path}/out.csv", "--resume"), capture_output=True, check=True)
    assert b"300 rows in, " in done.stderr
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert not journal.exists()


def test_processes_that_start_together_share_the_work(longer: Path, tmp_path: Path) -> None:
    """Like an array of jobs: one of them prepares the input, the others wait for it."""
    ranges = [command(longer, f"{tmp_path}/out.csv", "--block-range", each) for each in ("0:2", "2:4", "4:6")]
    processes = [subprocess.Popen(each, stderr=subprocess.PIPE) for each in ranges]
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], errors
    assert b"120 rows in, " in errors[0]
    subprocess.run(command(longer, f"{tmp_path}/out.csv", "--join"), check=True, capture_output=True)
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


@pytest.mark.parametrize("text", ["3", "a:b", "4:2", "1:-2"])
def test_a_range_is_checked(source: Path, tmp_path: Path, text: str) -> None:
    arguments = ["augment", str(source), "--output", f"{tmp_path}/out.csv", "--block-range", text]
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert f"--block-range is {text!r}" in result.stderr
