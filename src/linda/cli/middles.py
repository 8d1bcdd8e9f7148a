"""`linda middles`: training targets between two texts."""

import sys
from pathlib import Path

import click

from linda.cli.grouped_help import GroupedCommand
from linda.cli.options import FILE, PATH, SEED, SHARE

TABLE_GROUPS = {"Output": ("output",)}
TABLE_EXAMPLES = """\b
Examples:
  From one file:
    linda middles table wiki.txt.xz --output trigrams.safetensors
  From several files:
    linda middles table wiki.txt.xz other.txt.gz --output trigrams.safetensors
"""

MAKE_GROUPS = {
    "Input and output": ("table", "lm", "output"),
    "Middles": ("pairs", "ratios", "candidates", "restyled", "seed"),
    "Several processes": ("every", "offset"),
}
MAKE_EXAMPLES = """\b
Examples:
  Half of the pairs from each file, the best candidates chosen by a language model:
    linda middles make wiki.txt.xz=0.5 other.txt.gz=0.5 --table trigrams.safetensors \\
        --lm smollm2-135m --pairs 50000 --output middles
  The second of two processes:
    linda middles make wiki.txt.xz --table trigrams.safetensors --every 2 --offset 1 --output middles
"""
LM_HELP = "Causal language model that chooses among candidates: a folder, a .gguf file or a hub name."
RESTYLED_HELP = "Share of pairs to change in style: lower case, no full stop, spaces around punctuation."


@click.group("middles")
def command() -> None:
    """Make middles: training targets that lie between two texts.

    A middle is a crossover of two real sentences, such as the beginning of one and the end of the other, joined at the
    most fluent position. `linda train --middles` trains on them.

    \b
    Examples:
      linda middles table wiki.txt.xz other.txt.gz --output trigrams.safetensors
      linda middles make wiki.txt.xz=0.5 other.txt.gz=0.5 --table trigrams.safetensors \\
          --lm smollm2-135m --pairs 50000 --output middles
    """


@command.command("table", cls=GroupedCommand, groups=TABLE_GROUPS, epilog=TABLE_EXAMPLES)
@click.argument("corpus", nargs=-1, required=True)
@click.option("--output", required=True, type=PATH, help="File to write (safetensors).")
def table(corpus: tuple[str, ...], output: Path) -> None:
    """Count the n-grams of CORPUS, which score the seams of crossovers.

    CORPUS is one or more files with one sentence per line, plain, .gz or .xz.
    """
    import itertools

    from linda.files.textio import checked_target
    from linda.middles.ngrams import TrigramModel
    from linda.training.corpus import read_sentences

    checked_target(output)
    sentences = itertools.chain.from_iterable(map(read_sentences, corpus))
    model = TrigramModel.build(sentences, progress=sys.stderr.isatty())
    model.save(output)
    click.echo(f"{output}: {len(model.vocabulary):,} words")


@command.command("make", cls=GroupedCommand, groups=MAKE_GROUPS, epilog=MAKE_EXAMPLES)
@click.argument("corpus", nargs=-1, required=True)
@click.option("--table", required=True, type=PATH, help="File written by `linda middles table`.")
@click.option("--lm", type=FILE, help=LM_HELP)
@click.option("--pairs", default=50_000, type=click.IntRange(1, 10**9), help="Number of pairs of texts.")
@click.option("--ratios", default=2, type=click.IntRange(1, 9), help="Middles per pair.")
@click.option("--candidates", default=12, type=click.IntRange(1, 200), help="Candidates per middle.")
@click.option("--restyled", default=0.35, type=SHARE, help=RESTYLED_HELP)
@click.option("--seed", default=0, type=SEED, help="Seed of all random choices.")
@click.option("--every", default=1, type=click.IntRange(1, 10**6), help="Make only every n-th shard.")
@click.option("--offset", default=0, type=click.IntRange(0, 10**6), help="Number of the first shard to make.")
@click.option("--output", required=True, type=PATH, help="Folder to write.")
def make(
    corpus: tuple[str, ...],
    table: Path,
    lm: str | None,
    pairs: int,
    ratios: int,
    candidates: int,
    restyled: float,
    seed: int,
    every: int,
    offset: int,
    output: Path,
) -> None:
    """Search for middles of random pairs of sentences. Run the same command again to resume.

    CORPUS is one or more files with one sentence per line, plain, .gz or .xz. With `kind<TAB>sentence`, both sentences
    of a pair have the same kind. `FILE=0.45` sets the share of pairs that come from a file.

    Without --lm, the trigram model alone selects the middles: 50 times faster, less fluent. To use N processes, start
    each with --every N and a different --offset.
    """
    import math

    from linda.middles.making import SHARD_PAIRS, MiddlesPlan, Source, write_shards
    from linda.middles.ngrams import TrigramModel
    from linda.middles.rerank import SeamRanker

    plan = MiddlesPlan(tuple(map(Source.parse, corpus)), seed, ratios, restyled=restyled, candidates=candidates)
    trigrams = TrigramModel.load(table)
    ranker = SeamRanker.load(lm) if lm else None
    shards = range(offset, math.ceil(pairs / SHARD_PAIRS), every)
    write_shards(output, plan, trigrams, ranker, shards, progress=sys.stderr.isatty())
    click.echo(f"{output}: {len(shards):,} shards of {SHARD_PAIRS} pairs")
