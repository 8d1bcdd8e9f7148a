"""The help of every command: groups, defaults and two examples that are right."""

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from linda.augmentation.tables import NewRow
from linda.cli import main
from linda.cli import train as train_command
from linda.cli.grouped_help import GroupedCommand
from linda.planning.examples import RECORD
from site_hooks import command_helps


def leaves(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from leaves(child, f"{path} {name}")
    else:
        yield path, command


COMMANDS = dict(leaves(main, "linda"))
HELPS = dict(command_helps())
every_command = pytest.mark.parametrize("name", COMMANDS)


def options(name: str) -> list[click.Option]:
    return [option for option in COMMANDS[name].params if isinstance(option, click.Option)]


@every_command
def test_every_option_is_in_one_group(name: str) -> None:
    command = COMMANDS[name]
    assert isinstance(command, GroupedCommand)
    grouped = [parameter for group in command.groups.values() for parameter in group]
    assert sorted(grouped) == sorted(str(option.name) for option in options(name))
    headings = [line.removesuffix(":") for line in HELPS[name].splitlines() if re.fullmatch(r"\S.*:", line)]
    assert headings == [*command.groups, "Other options"]


@every_command
def test_every_option_is_described_with_its_default(name: str) -> None:
    text = "".join(HELPS[name].split())  # lines are wrapped at spaces and hyphens
    for option in options(name):
        assert option.help, option.name
        assert not option.help.startswith("["), option.name
        if not option.is_flag and not option.multiple and isinstance(option.default, str | int | float):
            assert f"default:{option.default}" in text, option.name


@every_command
def test_the_help_ends_with_two_examples(name: str) -> None:
    shown = HELPS[name].split("Examples:\n")[1]
    examples = re.findall(rf"({name}\b.*)", shown.replace("\\\n", " "))
    assert len(examples) == 2
    for example in examples:
        words = shlex.split(example)[len(name.split()) :]
        COMMANDS[name].make_context(name, words)  # raises a usage error for an option that does not exist


def test_the_defaults_of_train_are_those_of_the_presets() -> None:
    from linda.training import PRESETS

    presets = {name: settings.by_name() for name, settings in PRESETS.items()}
    shown = {name: setting for group in train_command._SETTINGS.values() for name, setting in group.items()}
    assert set(shown) == set(presets["small"]) - {"corpus", "middles"}
    for name, setting in shown.items():
        assert setting.paper == presets["paper"][name], name
        if name != "base":
            assert setting.small == presets["small"][name], name


def test_augment_lists_the_columns_that_it_adds() -> None:
    described = str(COMMANDS["linda augment"].help).split("Added columns: ")[1]
    listed = re.findall(r"\w+", re.sub(r"\([^)]*\)|\band\b", "", described))
    assert listed == list(RECORD)


def test_a_new_row_has_the_columns_of_the_record() -> None:
    """The method is the same for all rows, and in the settings."""
    assert NewRow._fields == ("example", *(name for name in RECORD if name != "method"))
