"""Measures mixtures of three or more texts.

    python scripts/several_texts.py SENTENCES --weights 0.5,0.3,0.2 --lm LM

SENTENCES is a file as for `linda inspect`. Random groups of sentences are mixed in one search over all texts, as
`mix([a, b, c], weights=…)` does, and for comparison by folding, `mix(mix(a, b), c)`, heaviest or lightest text first.

Printed for each way: the mean share of each text, which should be its weight; the mean distance of a single share from
its weight (aim); the share of outputs with content words of all texts; the perplexity under a language model relative
to that of the sentences themselves; and the speed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np

from linda.interpolation import Interpolator
from linda.measures import has_content_words_of_all, mean_shares, shares
from linda.measures.fluency import LanguageModel
from linda.training.corpus import read_sentences


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sentences", help="one sentence per line, or JSON lines with a field `text`")
    parser.add_argument("--weights", default="0.5,0.3,0.2", help="one per text (default: 0.5,0.3,0.2)")
    parser.add_argument("--lm", help="language model that measures perplexity (default: none)")
    parser.add_argument("--rows", type=int, default=100, help="groups of sentences (default: 100)")
    parser.add_argument("--show", type=int, default=0, help="rows to print (default: 0)")
    parser.add_argument("--seed", type=int, default=3, help="seed of the draw (default: 3)")
    options = parser.parse_args()

    weights = [float(weight) for weight in options.weights.split(",")]
    rows = drawn(list(read_sentences(options.sentences)), len(weights), options.rows, options.seed)
    linda = Interpolator.from_pretrained()
    language_model = LanguageModel.load(options.lm) if options.lm else None
    real = language_model.perplexity([text for row in rows for text in row]).per_token if language_model else 0.0
    for way in (searched, heaviest_first, lightest_first):
        started = time.process_time()
        outputs = way(linda, rows, weights)
        seconds = time.process_time() - started
        measured = [shares(output, row) for output, row in zip(outputs, rows, strict=True)]
        of_all = np.mean([has_content_words_of_all(output, row) for output, row in zip(outputs, rows, strict=True)])
        columns = [
            f"{way.__name__:14}",
            f"shares {' '.join(f'{share:.2f}' for share in mean_shares(outputs, rows))}",
            f"aim {np.abs(np.array(measured) - weights).mean():.2f}",
            f"words of all {of_all:.2f}",
            f"{len(rows) / seconds:.0f} texts/s",
        ]
        if language_model:
            columns.append(f"perplexity {language_model.perplexity(outputs).per_token / real:.2f}")
        print("  ".join(columns), flush=True)
        if way is searched:
            for row, output in list(zip(rows, outputs, strict=True))[: options.show]:
                print(*(f"- {text}" for text in row), f"= {output}", "", sep="\n")


def drawn(sentences: Sequence[str], texts: int, rows: int, seed: int) -> list[list[str]]:
    chosen = np.random.default_rng(seed).choice(len(sentences), (rows, texts), replace=False)
    return [[sentences[place] for place in row] for row in chosen]


def searched(linda: Interpolator, rows: Sequence[Sequence[str]], weights: Sequence[float]) -> list[str]:
    return linda.mix([list(column) for column in zip(*rows, strict=True)], weights=weights)


def heaviest_first(linda: Interpolator, rows: Sequence[Sequence[str]], weights: Sequence[float]) -> list[str]:
    return folded(linda, rows, weights, sorted(range(len(weights)), key=lambda t: -weights[t]))


def lightest_first(linda: Interpolator, rows: Sequence[Sequence[str]], weights: Sequence[float]) -> list[str]:
    return folded(linda, rows, weights, sorted(range(len(weights)), key=lambda t: weights[t]))


def folded(
    linda: Interpolator, rows: Sequence[Sequence[str]], weights: Sequence[float], order: Sequence[int]
) -> list[str]:
    mixed, weight = [row[order[0]] for row in rows], weights[order[0]]
    for t in order[1:]:
        mixed = linda.mix(mixed, [row[t] for row in rows], weight / (weight + weights[t]))
        weight += weights[t]
    return mixed


if __name__ == "__main__":
    main()
