"""Speed and fluency of several ways to write the text between two texts, for the same pairs at α = 0.5.

    OMP_NUM_THREADS=1 python benchmarks/middle_texts.py SENTENCES --trigrams trigrams.safetensors --lm SMOLLM2_135M

Ways: what `linda interpolate` does (the model chooses among crossovers); beam search with the same model, which copies
(`copies=True`); the naive splice; the best crossover of a trigram model; and the best of 12 of these under the language
model, which is how training targets are made (`linda middles make`). The language model also judges fluency, which
favours the last way. Rates are per second of processor time, and include everything from texts to texts.
"""

import math
import os
import time
from collections.abc import Callable
from pathlib import Path

import click

from linda import Interpolator
from linda.crossovers.search import naive_splice
from linda.measures.fluency import LanguageModel, TextLoss
from linda.measures.pairs import draw_pairs
from linda.middles.making import TextPair, make_middles
from linda.middles.ngrams import TrigramModel
from linda.middles.rerank import SeamRanker
from linda.training.corpus import read_sentences

ALPHA = 0.5
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("sentences", type=FILE)
@click.option("--trigrams", type=FILE, required=True, help="Table of `linda middles table`.")
@click.option("--lm", required=True, help="Causal language model: a folder, a .gguf file or a hub name.")
@click.option("--model", help="Folder of a LINDA model.  [default: the embedded one]")
@click.option("--pairs", default=96, show_default=True)
@click.option("--seed", default=3, show_default=True)
def main(sentences: Path, trigrams: Path, lm: str, model: str | None, pairs: int, seed: int) -> None:
    linda, table, ranker = Interpolator.from_pretrained(model), TrigramModel.load(trigrams), SeamRanker.load(lm)
    drawn = draw_pairs(list(read_sentences(str(sentences))), pairs, seed)
    first, second = [a for a, _ in drawn], [b for _, b in drawn]
    to_search = [TextPair(a, b, (ALPHA,)) for a, b in drawn]
    ways: dict[str, Callable[[], list[str]]] = {
        "the model chooses": lambda: linda.mix(first, second, ALPHA),
        "beam search": lambda: linda.mix(first, second, ALPHA, copies=True),
        "naive splice": lambda: [naive_splice(a, b, ALPHA) for a, b in drawn],
        "trigrams": lambda: [middle.target for middle in make_middles(to_search, table, None)],
        "trigrams, then the language model": lambda: [m.target for m in make_middles(to_search, table, ranker)],
    }
    linda.mix(first[:8], second[:8], ALPHA)  # warm up
    rates, texts = {}, {}
    for name, way in ways.items():
        begun = time.process_time()
        texts[name] = way()
        rates[name] = len(texts[name]) / (time.process_time() - begun)
    judge = LanguageModel.load(lm)
    real = _nats(judge.losses([*first, *second]))
    slowest = rates["trigrams, then the language model"]
    threads = os.environ.get("OMP_NUM_THREADS", "all")
    click.echo(f"{pairs} pairs of {sentences.name}, engine {linda.engine.name}, {threads} threads\n")
    click.echo("| way | texts | texts per processor second | × search with the LM | perplexity relative to real |")
    click.echo("|---|--:|--:|--:|--:|")
    for name, written in texts.items():
        relative = math.exp(_nats(judge.losses(written)) - real)
        click.echo(f"| {name} | {len(written)} | {rates[name]:,.1f} | {rates[name] / slowest:,.1f} | {relative:.2f} |")


def _nats(losses: list[TextLoss]) -> float:
    return sum(loss.nats for loss in losses) / sum(loss.tokens for loss in losses)


if __name__ == "__main__":
    main()
