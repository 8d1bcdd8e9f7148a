"""Options of several commands."""

import math
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from linda.engines import NAMES
from linda.errors import MAX_SEED, LindaError, checked_integer, shortened
from linda.files.paths import checked_path
from linda.files.storage import check_url, is_url


class _UsablePath(click.Path):
    """A valid file or folder path, or `-`."""

    def __init__(self, path_type: type | None = None, *, may_be_url: bool = False) -> None:
        super().__init__(path_type=path_type)
        self.may_be_url = may_be_url

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            if is_url(value) and not self.may_be_url:
                raise LindaError(f"{shortened(value)} is a URL, which is not supported here; give a local path")
            if is_url(value):
                check_url(str(value))
            elif str(value) != "-":
                checked_path(value)
        except LindaError as error:
            self.fail(str(error), param, ctx)
        return super().convert(value, param, ctx)


FILE = _UsablePath()
PATH = _UsablePath(path_type=Path)
TABLE = _UsablePath(may_be_url=True)
PAIRS = click.IntRange(1, 1_000_000)


class _Seed(click.ParamType):
    """A seed, with the same error messages as the Python API and the server."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return checked_integer(click.INT.convert(value, param, ctx), "seed", 0, MAX_SEED)


SEED = _Seed()


class _NumberRange(click.FloatRange):
    """A range without NaN and infinity, which `FloatRange` accepts."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


SHARE = _NumberRange(0, 1)

device_option = click.option("--device", default="auto", help="Device: cpu, cuda or cuda:1.")

sentences_option = click.option(
    "--sentences",
    required=True,
    type=FILE,
    help="Held-out sentences: .txt (one per line) or .jsonl (field `text`), plain, .gz or .xz.",
)

engine_option = click.option(
    "--engine",
    type=click.Choice(["auto", *NAMES]),
    default="auto",
    show_default=True,
    help="Inference engine; auto selects the fastest one available.",
)

translate_option = click.option(
    "--translate", nargs=2, metavar="THERE BACK", help="Models of backtranslation: to the other language, and back."
)

trigrams_option = click.option(
    "--trigrams", metavar="TABLE", type=FILE, help="File for crossover, written by `linda middles table`."
)

on_option = click.option(
    "--on", default="local", type=click.Choice(["local", "ray"]), help="Compute on this machine or on Ray."
)
ray_address_option = click.option(
    "--ray-address", help="Ray cluster: host:port, or auto.  [default: RAY_ADDRESS, or a new local cluster]"
)
gpus_per_worker_option = click.option(
    "--gpus-per-worker", default=0.0, type=_NumberRange(0), help="GPUs per Ray worker."
)


def asked_for(context: click.Context) -> set[str]:
    """Return the parameter names of the options that were given on the command line."""
    return {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}


def option_name(context: click.Context, parameter: str) -> str:
    """Return the name of an option as typed, such as --batch-tokens."""
    return next(known.opts[0] for known in context.command.params if known.name == parameter)
