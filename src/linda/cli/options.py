"""Options that several commands have."""

import click
from click.core import ParameterSource

from linda.engines import NAMES

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


def asked_for(context: click.Context) -> set[str]:
    """The options that were given, by the names of their parameters."""
    return {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}


def option_name(context: click.Context, parameter: str) -> str:
    """As it is typed."""
    return next(known.opts[0] for known in context.command.params if known.name == parameter)
