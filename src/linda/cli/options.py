"""Options that several commands have."""

import click

from linda.engines import NAMES

engine_option = click.option(
    "--engine",
    type=click.Choice(["auto", *NAMES]),
    default="auto",
    show_default=True,
    help="What computes the model; auto is the fastest that runs here.",
)

translate_option = click.option(
    "--translate", nargs=2, metavar="THERE BACK", help="The two translation models of backtranslation."
)
