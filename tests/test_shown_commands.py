"""Every `linda` command of a plain block of the README and the documentation runs, on small inputs.

Commands with printed output, and `python` blocks, are run by tests/test_docs.py.
"""

import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from linda.cli import main as linda
from linda.interpolation import Interpolator
from shown_inputs import INPUTS, write_input
from test_docs import shown_commands

# Options added to the commands that contain these words, to make them quick. The last of two equal options counts.
ADDED = {
    "linda train": "--steps 2 --pairs 2 --hold-out 4",
    "linda train tickets.txt": "--base MODEL",
    "linda calibrate": "--pairs 2",
    "linda inspect": "--pairs 2 --no-figures",
    "linda bench": "--workers 1 --seeds 1",
    "--shots 10": "--epochs 1",
    "--test-on validation": "--epochs 1",
    "--learning-rate search": "--epochs 1",
    "--shots 5,10": "--tasks sst2 --shots 5",
    "--paper low-resource": "--tasks sst2 --shots 5 --epochs 1",
    "--paper labels": "--tasks rte --train-size 6 --epochs 1",
    "--paper ood": "--tasks yelp-cuisine --methods vanilla,linda --train-size 6 --epochs 1",
    "--imbalance 10:100": "--imbalance 3:10",
    "--workers": "--workers 1",
}

# Parts of commands that stand for files, numbers and machines of a reader.
REPLACED = {
    "$first:1": "0:1",  # blocks that the number of the job determines
    "/data/": "data/",
    "my.csv --test my_test.csv --multi-label --train-size 200": "several.csv --test several.csv --multi-label",
    "per_row=8": "per_row=2",
    "per_row=4": "per_row=2",
    "pseudo_rows=4": "pseudo_rows=1",
}

NOT_RUN = {
    "--on ray": "needs a Ray cluster: see tests/test_ray.py",
    "linda serve": "serves until it is stopped: see tests/test_serve_process.py",
}

COMMANDS = list(shown_commands())
DEFAULT_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"


def words_to_run(command: str) -> list[str]:
    for shown, here in REPLACED.items():
        command = command.replace(shown, here)
    return shlex.split(" ".join([command, *(added for words, added in ADDED.items() if words in command)]))


@pytest.fixture(autouse=True)
def embedded_once(embedded: Interpolator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands use the embedded model that is loaded already."""
    load = Interpolator.from_pretrained

    def loaded(model: str | None = None, **settings: Any) -> Interpolator:
        return load(model, **settings) if model else embedded

    monkeypatch.setattr(Interpolator, "from_pretrained", loaded)


@pytest.mark.parametrize("page", dict.fromkeys(page for page, _ in COMMANDS))
def test_the_commands_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In their order, in one folder: a command may read what an earlier one has written."""
    monkeypatch.chdir(tmp_path)
    for command in (command for found, command in COMMANDS if found == page):
        if any(words in command for words in NOT_RUN):
            continue
        _, *arguments = words_to_run(command)
        for name in {*arguments, DEFAULT_ENCODER} & INPUTS.keys():
            write_input(name)
        result = CliRunner().invoke(linda, arguments, catch_exceptions=False)
        assert result.exit_code == 0, f"{command}: {result.stderr}"


@pytest.mark.parametrize("words", [*ADDED, *REPLACED, *NOT_RUN])
def test_every_exception_is_needed(words: str) -> None:
    assert any(words in command for _, command in COMMANDS)


def test_every_input_is_needed() -> None:
    used = {word for _, command in COMMANDS for word in words_to_run(command)}
    assert INPUTS.keys() - used == {DEFAULT_ENCODER}
