"""The command line. One file per command, which parses options, calls the library and prints; imported when it runs.

options        options of several commands
option_values  parsing and checks of option values
bench_checks   checks for incompatible options of `linda bench`
grouped_help   help with groups of options
"""

import errno
import io
import sys
from importlib import import_module
from typing import Any

import click

from linda import __version__
from linda.errors import LindaError, os_reason

# command: (module, line in `linda --help`). The lines are here so that help needs no heavy imports.
_COMMANDS = {
    "interpolate": ("linda.cli.interpolate", "Write the text between two texts."),
    "augment": ("linda.cli.augment", "Add new rows to a labelled table."),
    "bench": ("linda.cli.bench", "Compare augmentation methods on your data."),
    "serve": ("linda.cli.serve", "Serve a web page and an HTTP API."),
    "train": ("linda.cli.train", "Train a LINDA model on plain sentences."),
    "calibrate": ("linda.cli.calibrate", "Fit the map from the requested ratio to the mixed ratio."),
    "export": ("linda.cli.export", "Write a model with 8-bit, 16-bit or 32-bit weights."),
    "inspect": ("linda.cli.inspect", "Measure how well a model interpolates."),
    "middles": ("linda.cli.middles", "Make training targets that lie between two texts."),
    "cut-base": ("linda.cli.cut_base", "Cut a Marian translation model down to a small English base."),
}


_MAX_MESSAGE = 600  # characters


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
            _write_utf8()
            return super().invoke(ctx)
        except LindaError as error:
            message = str(error)
        except click.UsageError as error:
            command = error.ctx.command_path if error.ctx is not None else ctx.command_path
            message = f"{error.format_message()} (see {command} --help)"
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader closed the pipe; click exits silently
                raise
            named = "" if error.filename is None else f" ({error.filename})"
            message = f"operating system error: {os_reason(error)}{named}"
        except MemoryError:
            message = "out of memory; use smaller batches, fewer rows or a smaller model"
        click.echo(f"linda: {_one_line(message)}", err=True)
        ctx.exit(2)


def _one_line(message: str) -> str:
    """Join the lines of a message, and shorten it: it may quote a value of thousands of characters."""
    line = " ".join(message.split())
    return line if len(line) <= _MAX_MESSAGE else f"{line[: _MAX_MESSAGE // 2]} … {line[-_MAX_MESSAGE // 3 :]}"


def _write_utf8() -> None:
    """Write UTF-8 to standard output, regardless of the locale."""
    if sys.stdout is None:
        raise LindaError("standard output is closed; redirect it to a file or a pipe")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")  # file names may be any bytes


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="linda")
def main() -> None:
    """LINDA writes the text between two texts, and uses it to add rows to small labelled data sets."""
