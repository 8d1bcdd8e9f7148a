"""The command line, thin: parse, call, print. One file per command, imported when it is called."""

from importlib import import_module
from typing import Any

import click

from linda import __version__
from linda.errors import LindaError

# command: (module, one line for `linda --help`). The line stands here so that help needs no heavy import.
_COMMANDS = {
    "interpolate": ("linda.cli.interpolate", "Write the text between two texts."),
    "augment": ("linda.cli.augment", "Make a labelled table bigger."),
    "bench": ("linda.cli.bench", "Does augmentation help on this data, and which kind?"),
    "serve": ("linda.cli.serve", "Open a page to see it, and answer other programs over HTTP."),
    "train": ("linda.cli.train", "Train a LINDA model on plain sentences."),
    "calibrate": ("linda.cli.calibrate", "Fit the map from the ratio asked for to the ratio mixed."),
    "export": ("linda.cli.export", "Write a model with 8-bit, 16-bit or 32-bit weights."),
    "inspect": ("linda.cli.inspect", "Measure how well a model interpolates."),
    "cut-base": ("linda.cli.cut_base", "Cut a Marian translation model to a small English base."),
}


class _LazyGroup(click.Group):
    """A group whose commands are imported only when one of them runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command: click.Command = import_module(_COMMANDS[name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except LindaError as error:
            click.echo(f"linda: {error}", err=True)
            ctx.exit(2)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="linda")
def main() -> None:
    """LINDA writes the text between two texts, and makes small labelled data sets bigger with it."""
