"""Find the crossover of two texts that reads best to the decoder.

Beam search is a poor way to find a text in the middle: the position of the change from one text to the other is
uncertain, so no single change is more likely than none, and the likeliest text is a copy. Instead, all crossovers are
scored by their mean log-likelihood per token. The decoder reads them without any source text
(`AttentionMixing.without_texts`), as a language model: a decoder that sees a and b expects to go on copying, so its
scores say more about where it expects the change than about how the text reads.

1. The decoder scores a and b by forced decoding. After every prefix a[:i] this gives log p of a's next token and of the
   first token of every b[j:]; likewise with a and b exchanged. This is the score of every crossover, except for the
   effect of a seam on the tokens after the first one behind it.
2. For the best few crossovers, the decoder also scores the tokens behind their seams. The best of these is returned.

The result is assembled from the original strings, so that nothing is lost in the tokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from torch import Tensor

from linda.crossovers import Crossover, CrossoverSearch, CutText, SeamScores
from linda.crossovers.cuts import running_total
from linda.crossovers.search import SHARE_TOLERANCE, WIDE_SHARE_TOLERANCE, FloatArray, Seam
from linda.engines import Engine
from linda.engines.decoding import Decoding
from linda.engines.forced import Branch, Reading
from linda.errors import LindaError
from linda.model.attention_mixing import Mixture
from linda.model.tokens import Tokens

PATHS = 3  # sequences per row that must fit in a batch: a, b, and the tokens behind the seams
_PER_TOKEN = 8.0  # weight of the mean log-likelihood against the penalties for ratio and length
_READ_ON = 16  # crossovers per row that are scored again behind their seams
_BEHIND = 4  # tokens behind a seam that are scored again
_DRAWN_FROM = 48  # crossovers to sample from


class CrossedPair:
    """Two texts split into chunks, with the tokens of every chunk."""

    def __init__(self, a: str, b: str, alpha: float, tokens: Tokens, seed: int = 0) -> None:
        self.alpha, self.seed = alpha, seed
        self.texts = CutText(a, b), CutText(b, a)
        self.chunks = tuple(tokens.by_chunk(text.text, text.ends) for text in self.texts)
        self.wanted = sorted({token for text in self.chunks for chunk in text for token in chunk} | {tokens.end})
        self._columns = {token: column for column, token in enumerate(self.wanted)}
        self._end = tokens.end
        self._places = tuple(running_total(map(len, chunks)) for chunks in self.chunks)  # tokens before each place
        self.sequences = [[token for chunk in chunks for token in chunk] for chunks in self.chunks]  # of a, of b

    @property
    def can_be_cut(self) -> bool:
        return all(len(text) > 1 for text in self.texts)

    @property
    def ends(self) -> list[str]:
        """The text itself whose end of the path is as near to the ratio as a crossover has to be, if any."""
        is_near = min(self.alpha, 1 - self.alpha) <= SHARE_TOLERANCE
        return [self.texts[0 if self.alpha >= 0.5 else 1].text] if is_near else []

    def columns(self, tokens: Sequence[int]) -> list[int]:
        return [self._columns[token] for token in tokens]

    def branch(self, seam: Seam) -> Branch:
        """Return the tokens to score behind a seam; the last one is predicted but not fed."""
        before, place, other_place = seam
        tokens = self._behind(1 - before, other_place)
        return Branch(before, int(self._places[before][place]), tokens[:-1])

    def _behind(self, t: int, place: int) -> list[int]:
        start = int(self._places[t][place])
        return [*self.sequences[t], self._end][start : start + _BEHIND]

    def change(self, seam: Seam, behind: Tensor, along: Sequence[Tensor]) -> float:
        """Return the change in log p of the second and following tokens behind a seam, compared to their own text.

        Args:
            seam: the seam.
            behind: log p of the wanted tokens after each token of the seam's `branch`, (T, wanted).
            along: log p of the wanted tokens along a, and along b.
        """
        before, _, other_place = seam
        other = 1 - before
        following = self.columns(self._behind(other, other_place)[1:])
        start = int(self._places[other][other_place]) + 1
        there = behind[range(len(following)), following]
        at_home = along[other][range(start, start + len(following)), following]
        return float((there.double() - at_home.double()).sum())

    def best(self, read_a: Tensor, read_b: Tensor, count: int) -> list[Crossover]:
        """Return the best crossovers, see `search`; if none is near the ratio, and no end either, some farther away."""
        search = self.search(read_a, read_b)
        found = search.best(self.alpha, count)
        if found or self.ends:
            return found
        return search.best(self.alpha, count, WIDE_SHARE_TOLERANCE)

    def search(self, read_a: Tensor, read_b: Tensor) -> CrossoverSearch:
        """Return the crossover search, given log p of the wanted tokens along a, (Tᵃ + 1, wanted), and along b."""
        read = read_a.double().numpy(), read_b.double().numpy()
        places = self._places
        own, firsts = [], []
        for sequence, log_p, place in zip(self.sequences, read, places, strict=True):
            following = self.columns([*sequence, self._end])
            of_token = log_p[np.arange(len(following)), following]  # (T + 1,), the end marker is last
            before = np.concatenate([[0.0], np.cumsum(of_token)])
            runs = before[place]
            runs[-1] = before[-1]  # a run up to the end of the text includes the end marker
            own.append((runs, of_token[place]))
            firsts.append(np.array(following)[place])  # (n + 1,): the first token after each place

        def seams(x: int, y: int) -> FloatArray:
            there = read[x][places[x]][:, firsts[y]]  # (n + 1, m + 1): log p of y's first token after x[:i]
            return there - own[y][1]

        scores = SeamScores(
            seams=(seams(0, 1), seams(1, 0)),
            runs=(own[0][0], own[1][0]),
            lengths=(places[0], places[1]),
            per_token=_PER_TOKEN,
        )
        return CrossoverSearch(*self.texts, scores)

    def changed(self, crossover: Crossover, changes: Mapping[Seam, float]) -> Crossover:
        """Return the crossover with a score that includes the changes behind its seams."""
        tokens = sum(int(self._places[t][stop] - self._places[t][start]) for t, start, stop in crossover.runs)
        change = sum(changes[seam] for seam in crossover.seams)
        return replace(crossover, score=crossover.score + _PER_TOKEN * change / (tokens + 1))


def cross(engine: Engine, mixture: Mixture, pairs: Sequence[CrossedPair], decoding: Decoding) -> list[list[str]]:
    """Return the best crossovers of each pair, or a sample of good ones.

    Args:
        engine: scores the texts.
        mixture: what the decoder attends to while it scores, for B rows.
        pairs: the B pairs.
        decoding: how many to return (`n`), and whether to return the best or to sample (`sample`, with temperature,
            top-k and top-p).

    Returns:
        At most `n` different texts per pair. If the texts are too short or too similar for a crossover near the ratio:
        the text whose end of the path is near it, or else none.
    """
    reading = engine.read(
        mixture.states, mixture.mask, [pair.sequences for pair in pairs], [pair.wanted for pair in pairs], mixture.prior
    )
    if any(log_p.isnan().any() for row in reading.log_p for log_p in row):
        raise LindaError("the decoder's scores are not numbers: the weights are damaged; download the model again")
    count = _DRAWN_FROM if decoding.sample else max(decoding.n, _READ_ON)
    found = [pair.best(read_a, read_b, count) for pair, (read_a, read_b) in zip(pairs, reading.log_p, strict=True)]
    if decoding.sample:
        found = [_drawn(crossovers, pair.seed, decoding) for crossovers, pair in zip(found, pairs, strict=True)]
    else:
        found = _read_on(reading, pairs, found)
    return [
        [crossover.text(*pair.texts) for crossover in crossovers[: decoding.n]] or pair.ends
        for crossovers, pair in zip(found, pairs, strict=True)
    ]


def _read_on(reading: Reading, pairs: Sequence[CrossedPair], found: Sequence[list[Crossover]]) -> list[list[Crossover]]:
    """Score the tokens behind the seams, and sort the crossovers again.

    Seams are scored independently, also if a crossover has two: the first has little effect behind the second.
    """
    seams = [sorted({seam for crossover in row for seam in crossover.seams}) for row in found]
    branches = [[pair.branch(seam) for seam in row] for pair, row in zip(pairs, seams, strict=True)]
    if not any(branches):
        return list(found)
    read = reading.read_on(branches)
    ordered = []
    for row, pair in enumerate(pairs):
        changes = {
            seam: pair.change(seam, log_p, reading.log_p[row])
            for seam, log_p in zip(seams[row], read[row], strict=True)
        }
        scored = [pair.changed(crossover, changes) for crossover in found[row]]
        ordered.append(sorted(scored, key=lambda crossover: -crossover.score))
    return ordered


def _drawn(found: list[Crossover], seed: int, decoding: Decoding) -> list[Crossover]:
    """Sample without replacement, in the order of the draws, so that the first does not depend on n."""
    if not found:
        return []
    found = found[: decoding.top_k or None]
    scores = np.array([crossover.score for crossover in found]) / decoding.temperature
    if decoding.top_p < 1:
        weights = np.exp(scores - scores.max())
        before = np.cumsum(weights) - weights
        scores = scores[before < decoding.top_p * weights.sum()]  # sorted, so this is a prefix
    # Gumbel top-k: sorting by log w + Gumbel noise is a weighted sample without replacement.
    keys = scores + np.random.default_rng(seed).gumbel(size=len(scores))
    return [found[i] for i in np.argsort(-keys, kind="stable")]
