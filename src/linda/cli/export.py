"""`linda export`: write a model with smaller weights."""

from pathlib import Path

import click

from linda.cli.grouped_help import GroupedCommand
from linda.cli.options import FILE, PATH

GROUPS = {"Weights": ("bits",)}

EXAMPLES = """\b
Examples:
  8-bit weights; fit the calibration again afterwards:
    linda export my-model my-model-8
  16-bit weights, for a GPU:
    linda export my-model my-model-16 --bits 16
"""


@click.command(cls=GroupedCommand, groups=GROUPS, epilog=EXAMPLES)
@click.argument("model", type=FILE)
@click.argument("output", type=PATH)
@click.option("--bits", type=click.Choice(["8", "16", "32"]), default="8", help="Bits per weight.")
def command(model: str, output: Path, bits: str) -> None:
    """Write MODEL with smaller weights to the new folder OUTPUT.

    8-bit weights (one scale per matrix row) take a quarter of the space. The int8 engine uses them directly, so nothing
    is rounded when the model is loaded. The calibration is kept. Rounding changes the measured shares a little; run
    `linda calibrate` to fit it again.
    """
    from linda.errors import LindaError
    from linda.model import LindaModel
    from linda.model.checkpoint import WEIGHTS_FILE, local_folder

    if output.exists():
        raise LindaError(f"{str(output)!r} already exists; give a new folder")
    folder = local_folder(model)
    LindaModel.from_pretrained(folder).save_pretrained(output, bits=int(bits))
    before, after = ((place / WEIGHTS_FILE).stat().st_size / 1e6 for place in (folder, output))
    click.echo(f"{before:.1f} MB became {after:.1f} MB in {output}", err=True)
