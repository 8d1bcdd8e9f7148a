"""The command `linda augment`: in pipes, with bad input, and killed."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import psutil
import pytest
from click.testing import CliRunner, Result

from linda import methods
from linda.augmentation import Augmenter, gates, label_rules
from linda.augmentation.settings import AugmentationSettings
from linda.cli import augment as cli
from linda.cli import main
from linda.file_runs import blocks
from linda.file_runs.file_pipeline import augment_file
from linda.files import tables
from linda.interpolation import engine_for
from linda.planning import plan
from splice import sentences

GOOD = "text,label\n" + "".join(f"{text},{row % 2}\n" for row, text in enumerate(sentences(6)))
QUICK = ("--method", "eda")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_text(GOOD)
    return tmp_path


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["augment", *arguments], catch_exceptions=False)


def test_the_choices_of_the_help_are_those_of_the_library() -> None:
    assert cli.PARTNERS == plan.PARTNERS
    assert cli.LABELS == label_rules.MODES
    assert list(cli.GATES) == gates.Gates.names()
    assert cli.FORMATS == tables.FORMATS
    assert cli.BLOCK_ROWS == blocks.BLOCK_ROWS
    one_at_a_time = [name for name in methods.names() if not methods.find(name).needs_partner]
    assert sorted(cli._CHANGE_ONE) == sorted(one_at_a_time)


def test_every_default_is_the_librarys() -> None:
    library = AugmentationSettings()
    defaults = cli.command.make_context("augment", ["in.csv"]).params
    shared = [name for name in defaults if hasattr(library, name) and name != "plan"]
    assert len(shared) > 15
    for name in shared:
        assert defaults[name] == getattr(library, name), name


def test_the_help_groups_every_option_and_ends_with_two_examples() -> None:
    grouped = [name for names in cli.GROUPS.values() for name in names]
    options = [option.name for option in cli.command.params if isinstance(option, click.Option)]
    assert sorted(grouped) == sorted(options)
    text = call("--help").stdout
    headings = [line.removesuffix(":") for line in text.splitlines() if line.endswith(":") and line[0] != " "]
    assert headings == [*cli.GROUPS, "Other options"]
    assert text.split("Examples:")[1].count("linda augment") == 2


def test_a_table_gets_bigger_and_the_summary_says_how(folder: Path) -> None:
    result = call("in.csv", "--output", "out.jsonl", *QUICK)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "6 rows in, 6 made of 6 planned" in result.stderr
    assert "engine" not in result.stderr
    assert len((folder / "out.jsonl").read_text().splitlines()) == 12
    assert sorted(path.name for path in folder.iterdir()) == ["in.csv", "out.jsonl", "out.jsonl.labels.json"]


@pytest.mark.parametrize("method", ["linda", "ssmba"])
def test_the_summary_names_the_engine(folder: Path, tiny_model_folder: Path, method: str) -> None:
    arguments = ("in.csv", "--output", "out.jsonl", "--method", method, "--model", str(tiny_model_folder))
    assert f" s (engine {engine_for(tiny_model_folder)})\n" in call(*arguments).stderr
    assert " s (engine torch)\n" in call(*arguments, "--engine", "torch").stderr


def test_a_method_without_an_engine_takes_none(folder: Path) -> None:
    result = call("in.csv", "--output", "out.jsonl", *QUICK, "--engine", "torch")
    assert result.exit_code == 2
    assert "--engine has no effect: eda does not use a LINDA model" in result.stderr


def test_gates_can_be_opened(folder: Path) -> None:
    result = call("in.csv", "--output", "out.jsonl", *QUICK, "--keep", "drift", "--keep", "copies")
    assert result.exit_code == 0
    assert call("in.csv", "--output", "out.jsonl", "--keep", "nonsense").exit_code == 2


def test_the_plan_is_printed_saved_and_followed(folder: Path) -> None:
    assert call("in.csv", "--save-plan", "-").stdout.splitlines()[0].split() == ["row", "partner", "alpha", "seed"]
    assert call("in.csv", "--save-plan", "plan.jsonl", "--seed", "5").exit_code == 0
    assert sorted(path.name for path in folder.iterdir()) == ["in.csv", "plan.jsonl"]
    call("in.csv", "--output", "a.jsonl", "--plan", "plan.jsonl", *QUICK)
    call("in.csv", "--output", "b.jsonl", "--seed", "5", *QUICK)
    assert (folder / "a.jsonl").read_bytes() == (folder / "b.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (GOOD, ["--text", "txt"], "no column 'txt'"),
        (GOOD, ["--label", "labels"], "no column 'labels'"),
        (GOOD, ["--pair", "second"], "no column 'second'"),
        ("text,label\na b,0\n,1\n", [], "row 1: 'text' is empty"),
        ("text,label\na b,0\n  ,1\n", [], "row 1: 'text' is empty"),
        ("text,label\na b,0\nc d,\n", [], "row 1: the label is missing"),
        ("text,label\na b,0\n", ["--method", "linda"], "one row"),
        ("text,label\n", [], "no rows"),
        ("", [], "is empty"),
        (b"text,label\na b,0\n\xff\xfe,1\n", [], "line 3: not UTF-8"),
        ("text,label\na b,0\nc d,1,2\n", [], "line 3 (row 1): wrong number of columns (found 3, expected 2)"),
        ("text,text,label\na,b,0\nc,d,1\n", [], "'text' occurs twice"),
        ("text,label,alpha\na,0,1\nb,1,1\n", [], "'alpha'"),
        (GOOD, ["--output", "in.csv"], "the same file"),
        (GOOD, ["--output", "nowhere/out.csv"], "does not exist"),
        (GOOD, ["--output", "/proc/out.csv"], "cannot write"),
        (GOOD, ["--output", "out.doc"], "unknown file format"),
        (GOOD, ["--method", "linda", "--ratio", "2"], "'2' is not a ratio"),
        (GOOD, ["--ratio", "0.5"], "--ratio has no effect: eda does not mix texts"),
        (GOOD, ["--plan", "plan.csv", "--total", "3"], "--total has no effect: --plan already determines it"),
        (GOOD, ["--teacher", "nowhere"], "--teacher has no effect: only --labels predicted uses it"),
        (GOOD, ["--temperature", "2"], "--temperature has no effect"),
        (GOOD, ["--encoder", "nowhere"], "--encoder has no effect"),
        (GOOD, ["--save-plan", "in.csv"], "in.csv and in.csv are the same file"),
        (GOOD, ["--save-plan", "out.csv"], "out.csv and out.csv are the same file"),
        (GOOD, ["--save-plan", "-", "--output", "-"], "would both write to standard output"),
        (GOOD, ["--labels", "sharpened", "--temperature", "0"], "above 0"),
        (GOOD, ["--method", "magic"], "unknown method 'magic'"),
        (GOOD, ["--method", "linda", "--model", "nowhere"], "nowhere"),
        (GOOD, ["--labels", "predicted", "--teacher", "nowhere"], "no folder 'nowhere'"),
        (GOOD, ["--plan", "nowhere.csv"], "nowhere.csv"),
        (GOOD, ["--resume", "--restart"], "one of them"),
        (GOOD, ["--output", "-", "--resume"], "cannot be resumed"),
    ],
)
def test_bad_input_is_told_in_one_line(folder: Path, content: str | bytes, arguments: list[str], message: str) -> None:
    (folder / "in.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    result = call("in.csv", "--output", "out.csv", *QUICK, *arguments)
    assert result.exit_code == 2
    lines = [line for line in result.stderr.splitlines() if "one label" not in line and "all rows have" not in line]
    assert len(lines) == 1
    assert lines[0].startswith("linda: ")
    assert message in lines[0]
    assert [path.name for path in folder.iterdir()] == ["in.csv"]  # nothing is left behind


def test_mixed_label_types_are_told_with_their_row(folder: Path) -> None:
    (folder / "in.jsonl").write_text('{"text": "a b", "label": 1}\n{"text": "c d", "label": "1"}\n')
    result = call("in.jsonl", "--output", "out.csv", *QUICK)
    assert result.exit_code == 2
    assert "row 1: the label '1' is of type str, earlier labels are of type int" in result.stderr


def test_there_is_no_such_input(folder: Path) -> None:
    result = call("missing.csv", "--output", "out.csv")
    assert (result.exit_code, result.stderr) == (2, "linda: cannot read missing.csv: no such file or directory\n")
    assert "nothing to do" in call("in.csv").stderr
    (folder / "out.csv").write_text("an earlier one")
    assert "cannot read missing.csv: no such file or directory" in call("missing.csv", "--output", "out.csv").stderr
    (folder / "dir.csv").mkdir()
    assert "dir.csv is a folder; give a file" in call("dir.csv", "--output", "out.csv").stderr


def test_a_bad_row_is_told_with_its_file(folder: Path) -> None:
    (folder / "in.csv").write_text("text,label\nan old dog,0\nthe cat,\n")
    result = call("in.csv", "--output", "out.csv", *QUICK)
    assert result.stderr == "linda: in.csv: row 1: the label is missing; every row needs one (the first row is row 0)\n"


def test_backtranslation_names_its_models(folder: Path) -> None:
    result = call("in.csv", "--output", "out.csv", "--method", "backtranslation")
    assert "--translate THERE BACK" in result.stderr
    result = call("in.csv", "--output", "out.csv", "--method", "backtranslation", "--translate", "no-such", "no-such")
    assert "the translation model 'no-such' cannot be loaded" in result.stderr


def test_one_class_is_allowed_with_a_warning(folder: Path) -> None:
    (folder / "in.csv").write_text("text,label\nan old red dog ran,0\nthe small cat sat,0\n")
    result = call("in.csv", "--output", "out.csv", *QUICK)
    assert result.exit_code == 0
    assert "linda: all rows have the label 0" in result.stderr


def test_a_row_alone_in_its_label_is_told(folder: Path, tiny_model_folder: Path) -> None:
    (folder / "in.csv").write_text(GOOD + "alone,2\n")
    arguments = ("in.csv", "--output", "out.csv")
    assert "1 rows have a label that no other row has" in call(*arguments, "--model", str(tiny_model_folder)).stderr
    assert "have a label that no other row has" not in call(*arguments, *QUICK).stderr


def test_rows_without_text_can_be_skipped(folder: Path) -> None:
    (folder / "in.csv").write_text(GOOD + ",1\n")
    result = call("in.csv", "--output", "out.csv", *QUICK, "--skip-empty")
    assert result.exit_code == 0
    assert "1 rows without text" in result.stderr


# --- as processes ---------------------------------------------------------------------------------------------


def linda(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "linda", "augment", *arguments]


def test_pipes(folder: Path) -> None:
    command = linda("-", "--output", "-", "--input-format", "csv", "--output-format", "jsonl", *QUICK)
    done = subprocess.run(command, input=GOOD.encode(), capture_output=True, check=True)
    call("in.csv", "--output", "out.jsonl", *QUICK)
    assert done.stdout == (folder / "out.jsonl").read_bytes()


def test_a_pipe_with_bad_rows_is_told_like_a_file(folder: Path) -> None:
    command = linda("-", "--output", "out.csv", "--input-format", "csv", *QUICK)
    done = subprocess.run(command, input=b"text,label\na,0\nb\n", capture_output=True)
    assert done.returncode == 2
    assert done.stderr.decode() == (
        "linda: standard input, line 3 (row 1): wrong number of columns (found 1, expected 2)\n"
    )


def killed(command: list[str], progress: Path, seconds: float) -> bool:
    """Start a command and kill it some time after a file has grown; False if it finished before."""
    size = progress.stat().st_size if progress.exists() else -1
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and (not progress.exists() or progress.stat().st_size == size):
        time.sleep(0.001)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
    return process.wait() == -signal.SIGKILL


def test_kill_9_at_any_moment_loses_nothing(folder: Path) -> None:
    rows = [{"text": f"The cat of house {n} was seen by {n % 7} people.", "label": n % 3} for n in range(600)]
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = ("--per-row", "4", "--batch-size", "8", *QUICK)
    call("in.jsonl", "--output", "whole.csv", *settings)
    command = linda("in.jsonl", "--output", "out.csv", "--resume", *settings)
    journal = folder / ".out.csv.linda-journal"
    assert killed(command, journal, 0)  # before there are any results
    for _ in range(4):
        if not killed(command, journal / "_work" / "block-00000" / "chunks.jsonl", random.uniform(0, 0.4)):
            break  # it finished first
        if (folder / "out.csv").exists():  # killed at the very end: then it is complete
            assert (folder / "out.csv").read_bytes() == (folder / "whole.csv").read_bytes()
            break
        unfinished = call("in.jsonl", "--output", "out.csv", *settings)
        assert unfinished.exit_code == 2
        assert "unfinished run" in unfinished.stderr
    assert call("in.jsonl", "--output", "out.csv", "--resume", *settings).exit_code == 0
    assert (folder / "out.csv").read_bytes() == (folder / "whole.csv").read_bytes()
    assert not journal.exists()


def test_a_killed_run_takes_its_workers_along(folder: Path, tiny_model_folder: Path) -> None:
    (folder / "in.csv").write_text(
        "text,label\n" + "".join(f"the cat {n} sat on dog {n + 1},{n % 2}\n" for n in range(60))
    )
    settings = ("--model", str(tiny_model_folder), "--keep", "drift", "--keep", "runaway")
    augmenter = Augmenter(model=str(tiny_model_folder), gates=gates.Gates(drift=False, runaway=False))
    augment_file(augmenter, "in.csv", "whole.csv")
    command = linda("in.csv", "--output", "out.csv", "--batch-size", "4", "--workers", "2", *settings)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    chunks = folder / ".out.csv.linda-journal" / "_work" / "block-00000" / "chunks.jsonl"
    while process.poll() is None and not chunks.exists():
        time.sleep(0.01)
    workers = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert workers
    assert psutil.wait_procs(workers, timeout=30)[1] == []
    result = call("in.csv", "--output", "out.csv", "--resume", *settings)
    assert result.exit_code == 0
    assert (folder / "out.csv").read_bytes() == (folder / "whole.csv").read_bytes()
