"""Find the crossover of two or more texts that reads best to the decoder.

Beam search is a poor way to find a text in the middle: the position of the change from one text to the other is
uncertain, so no single change is more likely than none, and the likeliest text is a copy. Instead, all crossovers are
scored by their mean log-likelihood per token. The decoder reads them without any source text
(`AttentionMixing.without_texts`), as a language model: given a and b, the decoder favours further copying, so its
scores reflect where the change occurs rather than fluency.

1. The decoder scores a and b by forced decoding. After every prefix a[:i] this gives log p of a's next token and of the
   first token of every b[j:]; likewise with a and b exchanged. This is the score of every crossover, except for the
   effect of a seam on the tokens after the first one behind it. Three or more texts are scored in the same way.
2. For the best crossovers, the decoder also scores a few tokens behind their seams.
3. For the best of these, it scores more of them. The best is returned.

The result is assembled from the original strings, so that nothing is lost in the tokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np
from torch import Tensor

from linda.crossovers import ChainSearch, Crossover, CrossoverSearch, CutText, SeamScores
from linda.crossovers.cuts import running_total
from linda.crossovers.search import SHARE_TOLERANCE, WIDE_SHARE_TOLERANCE, FloatArray, Seam
from linda.engines import Engine
from linda.engines.decoding import Decoding
from linda.engines.forced import Branch, Reading
from linda.errors import LindaError
from linda.model.length_converter import Mixture
from linda.model.tokens import Tokens

_PER_TOKEN = 8.0  # weight of the mean log-likelihood against the penalties for ratio and length
# The crossovers per row that are scored again, and how many tokens behind their seams. Fewer tokens are cheaper, but
# a seam often reads well at first ("the capital of" → "the two brothers were").
_CROSSOVERS, _BEHIND = 48, 3
_FINALISTS, _FAR_BEHIND = 8, 8
_BRANCHES = 20  # sequences per row that are counted for the tokens behind its seams; the fastest in a trial of 3 to 40


class CrossedTexts:
    """Texts split into chunks, with the tokens of every chunk.

    Args:
        texts: Two or more texts.
        weights: The share of each; they sum to 1.
        tokens: The model's tokenizer.
        seed: Of sampling.
    """

    def __init__(self, texts: Sequence[str], weights: Sequence[float], tokens: Tokens, seed: int = 0) -> None:
        self.weights, self.seed = weights, seed
        self.texts = [CutText(text, " ".join([*texts[:t], *texts[t + 1 :]])) for t, text in enumerate(texts)]
        self.chunks = [tokens.by_chunk(text.text, text.ends) for text in self.texts]
        self.wanted = sorted({token for text in self.chunks for chunk in text for token in chunk} | {tokens.end})
        self._columns = {token: column for column, token in enumerate(self.wanted)}
        self._end = tokens.end
        self._places = [running_total(map(len, chunks)) for chunks in self.chunks]  # tokens before each place
        self.sequences = [[token for chunk in chunks for token in chunk] for chunks in self.chunks]  # of each text

    @property
    def can_be_cut(self) -> bool:
        return all(len(text) > 1 for text in self.texts)

    @property
    def ends(self) -> list[str]:
        """The text at the end of the path, if the ratio is within SHARE_TOLERANCE of it (two texts only)."""
        if len(self.texts) > 2 or min(self.weights) > SHARE_TOLERANCE:
            return []
        return [self.texts[0 if self.weights[0] >= 0.5 else 1].text]

    def columns(self, tokens: Sequence[int]) -> list[int]:
        return [self._columns[token] for token in tokens]

    def branch(self, seam: Seam, behind: int) -> Branch:
        """Return the tokens to score behind a seam; the last one is predicted but not fed."""
        before, place, other, other_place = seam
        tokens = self._behind(other, other_place, behind)
        return Branch(before, int(self._places[before][place]), tokens[:-1])

    def _behind(self, t: int, place: int, count: int) -> list[int]:
        start = int(self._places[t][place])
        return [*self.sequences[t], self._end][start : start + count]

    def change(self, seam: Seam, behind: Tensor, along: Sequence[Tensor]) -> float:
        """Return the change in log p of the second and following tokens behind a seam, compared to their own text.

        Args:
            seam: The seam.
            behind: Log p of the wanted tokens after each of the T tokens of the seam's `branch`, (T, wanted).
            along: Log p of the wanted tokens along each text.
        """
        _, _, other, other_place = seam
        following = self.columns(self._behind(other, other_place, 1 + len(behind))[1:])
        start = int(self._places[other][other_place]) + 1
        there = behind[range(len(following)), following]
        at_home = along[other][range(start, start + len(following)), following]
        return float((there.double() - at_home.double()).sum())

    def best(self, along: Sequence[Tensor], count: int) -> list[Crossover]:
        """Return the best crossovers; if none is near the ratio or the weights, and no end either, some farther away.

        Args:
            along: Log p of the wanted tokens along each text, (T + 1, wanted).
            count: Maximum number of crossovers.
        """
        scores = self.scores(along)

        def best(tolerance: float) -> list[Crossover]:
            if len(self.texts) > 2:
                return ChainSearch(self.texts, scores).best(self.weights, count, tolerance)
            a, b = self.texts
            return CrossoverSearch(a, b, scores).best(self.weights[0], count, tolerance)

        found = best(SHARE_TOLERANCE)
        return found if found or self.ends else best(WIDE_SHARE_TOLERANCE)

    def scores(self, along: Sequence[Tensor]) -> SeamScores:
        """Score the runs and seams, given log p of the wanted tokens along each text."""
        read = [log_p.double().numpy() for log_p in along]
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

        return SeamScores(
            seams={(x, y): seams(x, y) for x, y in permutations(range(len(places)), 2)},
            runs=[runs for runs, _ in own],
            lengths=places,
            per_token=_PER_TOKEN,
        )

    def changed(self, crossover: Crossover, changes: Mapping[Seam, float]) -> Crossover:
        """Return the crossover with a score that includes the changes behind its seams."""
        tokens = sum(int(self._places[t][stop] - self._places[t][start]) for t, start, stop in crossover.runs)
        change = sum(changes[seam] for seam in crossover.seams)
        return replace(crossover, score=crossover.score + _PER_TOKEN * change / (tokens + 1))


def sequences_of(texts: int) -> int:
    """Sequences per row that must fit in a batch: the texts, and an upper estimate for the tokens behind the seams.

    With a lower estimate, batches are larger but slower: their tensors do not fit in the cache.
    """
    return texts + _BRANCHES


def cross(engine: Engine, mixture: Mixture, rows: Sequence[CrossedTexts], decoding: Decoding) -> list[list[str]]:
    """Return the best crossovers of each row of texts, or a sample of good ones.

    Args:
        engine: Scores the texts.
        mixture: What the decoder attends to while it scores, for B rows.
        rows: The B rows, with the same number of texts each.
        decoding: How many to return (`n`), and whether to return the best or to sample (`sample`, with temperature,
            top-k and top-p).

    Returns:
        At most `n` different texts per row. If its texts are too short or too similar for a crossover near the ratio:
        the text whose end of the path is near it, or else none.
    """
    reading = engine.read(
        mixture.states, mixture.mask, [row.sequences for row in rows], [row.wanted for row in rows], mixture.prior
    )
    if any(log_p.isnan().any() for row in reading.log_p for log_p in row):
        raise LindaError("the decoder's scores are not numbers: the weights are damaged; download the model again")
    count = max(decoding.n, _CROSSOVERS)
    candidates = [row.best(along, count) for row, along in zip(rows, reading.log_p, strict=True)]
    found = _read_on(reading, rows, candidates, _BEHIND)
    if decoding.sample:
        found = [_drawn(crossovers, row.seed, decoding) for crossovers, row in zip(found, rows, strict=True)]
    else:
        found = _finals(reading, rows, candidates, found, max(decoding.n, _FINALISTS))
    return [
        [crossover.text(*row.texts) for crossover in crossovers[: decoding.n]] or row.ends
        for crossovers, row in zip(found, rows, strict=True)
    ]


def _read_on(
    reading: Reading, rows: Sequence[CrossedTexts], found: Sequence[Sequence[Crossover]], behind: int
) -> list[list[Crossover]]:
    """Score the tokens behind the seams, and sort the crossovers again.

    Seams are scored independently, also if a crossover has several: the first has little effect behind the second.

    Args:
        reading: The decoder's scores along the texts.
        rows: The texts.
        found: The crossovers of each row, scored along the texts.
        behind: How many tokens to score behind each seam.
    """
    seams = [sorted({seam for crossover in crossovers for seam in crossover.seams}) for crossovers in found]
    branches = [[row.branch(seam, behind) for seam in of_row] for row, of_row in zip(rows, seams, strict=True)]
    if not any(branches):
        return [list(crossovers) for crossovers in found]
    read = reading.read_on(branches)
    ordered = []
    for number, row in enumerate(rows):
        changes = {
            seam: row.change(seam, log_p, reading.log_p[number])
            for seam, log_p in zip(seams[number], read[number], strict=True)
        }
        scored = [row.changed(crossover, changes) for crossover in found[number]]
        ordered.append(sorted(scored, key=lambda crossover: -crossover.score))
    return ordered


def _finals(
    reading: Reading,
    rows: Sequence[CrossedTexts],
    candidates: Sequence[list[Crossover]],
    ranked: Sequence[list[Crossover]],
    count: int,
) -> list[list[Crossover]]:
    """Read the best `count` of the ranked crossovers farther, and sort them again."""
    finalists = []
    for crossovers, order in zip(candidates, ranked, strict=True):
        by_runs = {crossover.runs: crossover for crossover in crossovers}
        finalists.append([by_runs[crossover.runs] for crossover in order[:count]])
    return _read_on(reading, rows, finalists, _FAR_BEHIND)


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
