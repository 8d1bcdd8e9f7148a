"""`linda cut-base`: cut a Marian translation model down to a small English base."""

from pathlib import Path

import click

from linda.cli.grouped_help import GroupedCommand
from linda.cli.options import PATH, SEED
from linda.errors import LindaError

GROUPS = {
    "Input and output": ("corpus", "lines", "output"),
    "Size": ("pieces", "decoder_layers"),
    "Other settings": ("seed",),
}

EXAMPLES = """\b
Examples:
  The base of the embedded model:
    linda cut-base opus-mt-fr-en --corpus wiki.txt.xz --corpus other.txt.gz --output base
  A smaller vocabulary and all six decoder layers:
    linda cut-base opus-mt-fr-en --corpus wiki.txt.xz --pieces 16000 --decoder-layers 0,1,2,3,4,5 --output base
"""

CORPUS_HELP = "English sentences in which vocabulary pieces are counted, as for `linda train`. Can be repeated."
LINES_HELP = "Sentences to count per file."


@click.command("cut-base", cls=GroupedCommand, groups=GROUPS, epilog=EXAMPLES)
@click.argument("marian", type=PATH, metavar="MARIAN_FOLDER")
@click.option("--corpus", type=PATH, multiple=True, required=True, help=CORPUS_HELP)
@click.option("--pieces", default=30_000, type=click.IntRange(1, 10**7), help="Vocabulary size, with 256 byte tokens.")
@click.option("--decoder-layers", default="0,2,5", help="Numbers of the decoder layers to keep.")
@click.option("--lines", default=200_000, type=click.IntRange(1, 10**9), help=LINES_HELP)
@click.option("--seed", default=0, type=SEED, help="Seed of embeddings that the Marian model lacks.")
@click.option("--output", type=PATH, required=True, help="Folder to write.")
def command(
    marian: Path,
    corpus: tuple[Path, ...],
    pieces: int,
    decoder_layers: str,
    lines: int,
    seed: int,
    output: Path,
) -> None:
    """Cut a Marian model that translates into English down to a small English base for `linda train`."""
    try:
        layers = [int(number) for number in decoder_layers.split(",")]
    except ValueError as error:
        raise LindaError(
            f"--decoder-layers is {decoder_layers:.80}; give numbers separated by commas, such as 0,2,5"
        ) from error

    from transformers.utils.logging import disable_progress_bar

    from linda.training.base import cut_base

    disable_progress_bar()  # of `transformers`; it has a single step
    cut_base(marian, corpus, output, pieces=pieces, decoder_layers=layers, lines=lines, seed=seed)
    click.echo(f"{output}: {pieces} pieces, {len(layers)} decoder layers")
