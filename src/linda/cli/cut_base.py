"""`linda cut-base`: a small English base out of a Marian translation model."""

from pathlib import Path

import click

from linda.cli.options import PATH, SEED
from linda.errors import LindaError


@click.command("cut-base")
@click.argument("marian", type=PATH, metavar="MARIAN_FOLDER")
@click.option(
    "--corpus",
    type=PATH,
    multiple=True,
    required=True,
    help="English sentences to count pieces in, as for `linda train`; repeat for more files.",
)
@click.option(
    "--pieces",
    default=30_000,
    show_default=True,
    type=click.IntRange(1, 10**7),
    help="Size of the vocabulary, bytes included.",
)
@click.option("--decoder-layers", default="0,2,5", show_default=True, help="Numbers of the decoder layers to keep.")
@click.option(
    "--lines",
    default=200_000,
    show_default=True,
    type=click.IntRange(1, 10**9),
    help="Sentences to count of each file.",
)
@click.option(
    "--seed", default=0, show_default=True, type=SEED, help="Sets the embeddings that the Marian model lacks."
)
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
    """Cut a Marian model that translates into English to a small English base for `linda train`.

    \b
    linda cut-base opus-mt-fr-en --corpus wiki.txt.xz --corpus other.txt.gz --output base
    """
    try:
        layers = [int(number) for number in decoder_layers.split(",")]
    except ValueError as error:
        raise LindaError(f"--decoder-layers {decoder_layers:.80}: give numbers with commas, like 0,2,5") from error

    from transformers.utils.logging import disable_progress_bar

    from linda.training.base import cut_base

    disable_progress_bar()  # it would count to one
    cut_base(marian, corpus, output, pieces=pieces, decoder_layers=layers, lines=lines, seed=seed)
    click.echo(f"{output}: {pieces} pieces, {len(layers)} decoder layers")
