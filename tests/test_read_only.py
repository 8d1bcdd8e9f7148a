"""An output in a folder that cannot be written is refused in one line, before anything is computed."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from linda.cli import main
from linda.errors import LindaError
from linda.files.folders import check_output_folder
from linda.files.storage import Storage

COMMANDS = {
    "interpolate": "interpolate --pairs {files}/pairs.tsv --output {locked}/out.jsonl",
    "augment": "augment {files}/table.csv --method eda --output {locked}/out.csv",
    "augment to parts": "augment {files}/table.csv --method eda --output {locked}/parts/",
    "plan": "augment {files}/table.csv --method eda --save-plan {locked}/plan.csv",
    "bench": "bench --train {files}/table.csv --test {files}/table.csv --output {locked}",
    "export": "export {model} {locked}/smaller",
    "inspect": "inspect {model} --sentences {files}/lines.txt --output {locked}/report",
    "train": "train {files}/lines.txt --base {model} --steps 1 --output {locked}/trained",
    "middles table": "middles table {files}/lines.txt --output {locked}/table.safetensors",
}


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that says it is read-only: permissions alone do not stop root, who may run the tests."""
    folder = tmp_path / "locked"
    folder.mkdir()
    access = os.access

    def refused(path: str | Path, mode: int) -> bool:
        is_below = Path(path).absolute().is_relative_to(folder)
        return False if is_below and mode & os.W_OK else access(path, mode)

    monkeypatch.setattr(os, "access", refused)
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_a_read_only_folder_is_refused(name: str, locked: Path, tmp_path: Path, tiny_model_folder: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "table.csv").write_text("text,label\nthe cat sat,a\na dog ran,a\nwho is it,b\nwhere is it,b\n")
    (files / "pairs.tsv").write_text("a\tb\nthe cat\ta dog\n")
    (files / "lines.txt").write_text("the cat sat on the red river\n" * 200)
    command = COMMANDS[name].format(files=files, locked=locked, model=tiny_model_folder)
    result = CliRunner().invoke(main, command.split())
    assert result.exit_code == 2, result.output
    assert str(locked) in result.stderr
    assert "read-only" in result.stderr or "permission denied" in result.stderr
    assert result.stderr.count("\n") == 1
    assert not any(locked.iterdir())


def test_the_checks_of_folders_refuse_it_too(locked: Path) -> None:
    with pytest.raises(LindaError, match="it is read-only; give another folder"):
        check_output_folder(locked)
    with pytest.raises(LindaError, match="permission denied"), Storage(locked).writing("x"):
        pass
    assert not any(locked.iterdir())
