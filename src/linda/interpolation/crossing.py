"""Which crossover of two texts the decoder finds best.

Beam search is a poor way to find the middle of two texts: where to change from one to the other is uncertain, so that
no single change is likelier than none, and the likeliest text is a copy. Instead all crossovers are scored:

1. The decoder reads a, and reads b, given the mixture of both: two sequences, in parallel. After every prefix a[:i]
   this gives log p of a's next token, and of the first token of every b[j:]; the same with a and b exchanged. So the
   score of every crossover is known, but for how a seam changes the tokens after the first one behind it.
2. The best few are read in full, and the best of them is taken.

The text is put together from the two texts themselves, so that nothing is lost in the tokenizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from torch import Tensor

from linda.crossovers import Crossover, CrossoverSearch, CutText, SeamScores
from linda.crossovers.cuts import running_total
from linda.crossovers.search import FloatArray
from linda.engines import Engine
from linda.engines.decoding import Decoding
from linda.model.attention_mixing import Mixture
from linda.model.tokens import Tokens

PATHS = 6  # crossovers of a row that are read in full
_DRAWN_FROM = 48  # crossovers that a sample is drawn from


class CrossedPair:
    """Two texts, cut, with the tokens of every chunk."""

    def __init__(self, a: str, b: str, alpha: float, tokens: Tokens, seed: int = 0) -> None:
        self.alpha, self.seed = alpha, seed
        self.texts = CutText(a, b), CutText(b, a)
        self.chunks = tuple(tokens.by_chunk(text.text, text.ends) for text in self.texts)
        self.wanted = sorted({token for text in self.chunks for chunk in text for token in chunk} | {tokens.end})
        self._columns = {token: column for column, token in enumerate(self.wanted)}
        self._end = tokens.end

    @property
    def can_be_cut(self) -> bool:
        return all(len(text) > 1 for text in self.texts)

    def sequence(self, crossover: Crossover) -> list[int]:
        """The tokens of a crossover."""
        return [token for t, start, stop in crossover.runs for chunk in self.chunks[t][start:stop] for token in chunk]

    @property
    def sequences(self) -> list[list[int]]:
        """The tokens of a, and of b."""
        return [[token for chunk in chunks for token in chunk] for chunks in self.chunks]

    def columns(self, tokens: Sequence[int]) -> list[int]:
        """Where tokens stand among those that are wanted."""
        return [self._columns[token] for token in tokens]

    def log_likelihood(self, sequence: Sequence[int], read: Tensor) -> float:
        """log p of a sequence and its end, as read: (T + 1, wanted)."""
        following = self.columns([*sequence, self._end])
        return float(read[range(len(following)), following].double().sum())

    def search(self, read_a: Tensor, read_b: Tensor) -> tuple[CrossoverSearch, SeamScores]:
        """The search for crossovers, from what the decoder says along a, (Tᵃ + 1, wanted), and along b."""
        read = read_a.double().numpy(), read_b.double().numpy()
        places = tuple(running_total(map(len, chunks)) for chunks in self.chunks)  # tokens before each place
        own, firsts = [], []
        for sequence, log_p, place in zip(self.sequences, read, places, strict=True):
            following = self.columns([*sequence, self._end])
            of_token = log_p[np.arange(len(following)), following]  # (T + 1,), the end marker's comes last
            before = np.concatenate([[0.0], np.cumsum(of_token)])
            runs = before[place]
            runs[-1] = before[-1]  # whoever ends with the text ends with its end marker
            own.append((runs, of_token[place]))
            firsts.append(np.array(following)[place])  # (n + 1,): the first token after each place

        def seams(x: int, y: int) -> FloatArray:
            there = read[x][places[x]][:, firsts[y]]  # (n + 1, m + 1): log p of y's first token after x[:i]
            return there - own[y][1]

        scores = SeamScores(
            seams=(seams(0, 1), seams(1, 0)), runs=(own[0][0], own[1][0]), lengths=(places[0], places[1])
        )
        return CrossoverSearch(*self.texts, scores), scores


def cross(engine: Engine, mixture: Mixture, pairs: Sequence[CrossedPair], decoding: Decoding) -> list[list[str]]:
    """The best crossovers of each pair, or a sample of good ones.

    Args:
        engine: reads.
        mixture: of the B pairs.
        pairs: B of them.
        decoding: how many are wanted (`n`), and whether they are drawn (`sample`, with temperature, top-k and top-p)
            or the best, best first.

    Returns:
        At most `n` different texts per pair; none where the two texts are too short or too much alike.
    """
    read = engine.read(
        mixture.states, mixture.mask, [pair.sequences for pair in pairs], [pair.wanted for pair in pairs], mixture.prior
    )
    count = _DRAWN_FROM if decoding.sample else max(decoding.n, PATHS)
    shortlists = []
    for pair, (read_a, read_b) in zip(pairs, read, strict=True):
        search, scores = pair.search(read_a, read_b)
        shortlists.append((search.best(pair.alpha, count), scores))
    if decoding.sample:
        chosen = [_drawn(found, pair.seed, decoding) for (found, _), pair in zip(shortlists, pairs, strict=True)]
    else:
        chosen = _read_in_full(engine, mixture, pairs, shortlists)
    return [
        [crossover.text(*pair.texts) for crossover in found[: decoding.n]]
        for found, pair in zip(chosen, pairs, strict=True)
    ]


def _read_in_full(
    engine: Engine,
    mixture: Mixture,
    pairs: Sequence[CrossedPair],
    shortlists: Sequence[tuple[list[Crossover], SeamScores]],
) -> list[list[Crossover]]:
    """The crossovers of each short list, scored by what the decoder says along each of them, best first."""
    rows = [row for row, (found, _) in enumerate(shortlists) if found]
    ordered: list[list[Crossover]] = [[] for _ in pairs]
    if not rows:
        return ordered
    sequences = [[pairs[row].sequence(crossover) for crossover in shortlists[row][0]] for row in rows]
    read = engine.read(
        mixture.states[rows],
        mixture.mask[rows],
        sequences,
        [pairs[row].wanted for row in rows],
        None if mixture.prior is None else mixture.prior[rows],
    )
    for row, read_row, row_sequences in zip(rows, read, sequences, strict=True):
        found, scores = shortlists[row]
        exact = [
            replace(crossover, score=crossover.score - scores.worth(crossover) + likelihood)
            for crossover, likelihood in zip(
                found, map(pairs[row].log_likelihood, row_sequences, read_row), strict=True
            )
        ]
        ordered[row] = sorted(exact, key=lambda crossover: -crossover.score)
    return ordered


def _drawn(found: list[Crossover], seed: int, decoding: Decoding) -> list[Crossover]:
    """A sample without replacement, in the order in which it is drawn: the first one is the same whatever n."""
    if not found:
        return []
    scores = np.array([crossover.score for crossover in found[: decoding.top_k or None]]) / decoding.temperature
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    weights[np.concatenate([[0.0], np.cumsum(weights)[:-1]]) >= decoding.top_p] = 0.0
    random = np.random.default_rng(seed)
    # The largest of log w + Gumbel noise is a draw by w; the order of all is a sample without replacement.
    with np.errstate(divide="ignore"):
        keys = np.log(weights) + random.gumbel(size=len(weights))
    return [found[i] for i in np.argsort(-keys, kind="stable") if weights[i] > 0]
