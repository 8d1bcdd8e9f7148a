"""linda calibrate"""

import sys
from pathlib import Path

import click

from linda.cli.options import FILE, PAIRS, PATH, SEED, engine_option


@click.command()
@click.argument("model", type=PATH)
@click.option(
    "--sentences",
    required=True,
    type=FILE,
    help="Held-out sentences: .txt (one a line) or .jsonl (field 'text'), plain, .gz or .xz.",
)
@click.option("--pairs", default=200, show_default=True, type=PAIRS, help="How many pairs to decode.")
@click.option("--seed", default=0, show_default=True, type=SEED, help="Which pairs are drawn.")
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, cuda:0 …")
@engine_option
def command(model: Path, sentences: str, pairs: int, seed: int, device: str, engine: str) -> None:
    """Fit the map from the ratio asked for to the ratio mixed, and store it in MODEL.

    After it, texts asked for at 0.7 owe 70 % of their measured words to the first text. The ends stay exact, and
    the raw ratio stays within reach (--raw). Use sentences that the model was not trained on.
    """
    from linda.errors import LindaError
    from linda.interpolation import Interpolator
    from linda.interpolation.calibration import calibrate
    from linda.measures.pairs import draw_pairs
    from linda.training.corpus import read_sentences

    if not model.is_dir():
        raise LindaError(f"there is no model folder {str(model)!r} to store a calibration in")
    drawn = draw_pairs(read_sentences(sentences), pairs, seed)
    interpolator = Interpolator.from_pretrained(model, device=device, engine=engine)
    knots = calibrate(interpolator, model, drawn, progress=sys.stderr.isatty())
    click.echo("asked  mixed")
    for asked, mixed in knots:
        click.echo(f"{asked:.3f}  {mixed:.3f}")
