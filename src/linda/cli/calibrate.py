"""`linda calibrate`: fit the map from the requested ratio to the mixed ratio."""

import sys
from pathlib import Path

import click

from linda.cli.grouped_help import GroupedCommand
from linda.cli.options import PAIRS, PATH, SEED, device_option, engine_option, sentences_option

GROUPS = {"Pairs": ("sentences", "pairs", "seed"), "Execution": ("device", "engine")}

EXAMPLES = """\b
Examples:
  After a change of the weights:
    linda calibrate my-model --sentences held-out.txt
  More pairs, for a smoother map:
    linda calibrate my-model --sentences reviews.jsonl.gz --pairs 1000
"""


@click.command(cls=GroupedCommand, groups=GROUPS, epilog=EXAMPLES)
@click.argument("model", type=PATH)
@sentences_option
@click.option("--pairs", default=200, type=PAIRS, help="Number of random pairs to decode.")
@click.option("--seed", default=0, type=SEED, help="Seed of the pairs.")
@device_option
@engine_option
def command(model: Path, sentences: str, pairs: int, seed: int, device: str, engine: str) -> None:
    """Fit the map from the requested ratio to the mixed ratio, and store it in MODEL.

    Afterwards, a ratio of 0.7 gives texts with a measured share of the first text of 0.7 on average. The ends remain
    exact, and --raw of the other commands ignores the map. Use held-out sentences similar to those you will mix.
    """
    from linda.errors import LindaError
    from linda.interpolation import Interpolator
    from linda.interpolation.calibration import calibrate
    from linda.measures.pairs import draw_pairs
    from linda.training.corpus import read_sentences

    if not model.is_dir():
        raise LindaError(f"there is no model folder {str(model)!r}; give one that `linda train` wrote")
    drawn = draw_pairs(read_sentences(sentences), pairs, seed)
    interpolator = Interpolator.from_pretrained(model, device=device, engine=engine)
    knots = calibrate(interpolator, model, drawn, progress=sys.stderr.isatty())
    click.echo("requested  mixed")
    for requested, mixed in knots:
        click.echo(f"{requested:9.3f}  {mixed:.3f}")
