"""linda export"""

from pathlib import Path

import click

from linda.cli.options import FILE, PATH


@click.command()
@click.argument("model", type=FILE)
@click.argument("output", type=PATH)
@click.option("--bits", type=click.Choice(["8", "16", "32"]), default="8", show_default=True, help="Of a weight.")
def command(model: str, output: Path, bits: str) -> None:
    """Write MODEL with smaller weights into the folder OUTPUT.

    8 bits (one scale per row of a matrix) are a quarter of the size, and just what the int8 engine computes with:
    nothing has to be rounded when the model is loaded. The calibration is kept; since rounding moves the ratios a
    little, fit it again:

    \b
      linda export my-model my-model-8
      linda calibrate my-model-8 --sentences held-out.txt
    """
    from linda.errors import LindaError
    from linda.model import LindaModel
    from linda.model.checkpoint import WEIGHTS_FILE, local_folder

    if output.exists():
        raise LindaError(f"{str(output)!r} exists already; give a new folder")
    folder = local_folder(model)
    LindaModel.from_pretrained(folder).save_pretrained(output, bits=int(bits))
    before, after = ((place / WEIGHTS_FILE).stat().st_size / 1e6 for place in (folder, output))
    click.echo(f"{before:.1f} MB became {after:.1f} MB in {output}", err=True)
