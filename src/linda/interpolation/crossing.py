"""Find the crossover of two or more texts with the highest likelihood under the decoder.

Beam search is not suited to find a text in the middle: the position of the change from one text to the other is
uncertain, so no single change is more likely than none, and the most likely text is a copy. Instead, all crossovers are
scored by their mean log-likelihood per token. The decoder scores them without any source text
(`AttentionMixing.without_texts`), as a language model: given a and b, it favours further copying, so that its scores
would depend more on the position of the change than on fluency.

1. The decoder scores a and b by forced decoding. After every prefix a[:i] this gives log p of a's next token and of the
   first token of every b[j:]; likewise with a and b exchanged. This is the score of every crossover, except that only
   the first token after a seam is scored in its new context. Three or more texts are scored in the same way.
2. For the best crossovers, the decoder also scores the next few tokens after their seams.
3. For the best of these, it scores more tokens. The best crossovers are returned.

The result is assembled from the original strings, so that tokenization loses nothing.
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
from linda.engines.forced import Branch, ForcedScores
from linda.errors import LindaError
from linda.model.length_converter import Mixture
from linda.model.tokens import Tokens

_PER_TOKEN = 8.0  # weight of the mean log-likelihood relative to the penalties for ratio and length
# Number of crossovers per row in steps 2 and 3, and of tokens to score after their seams. Fewer tokens are cheaper, but
# the first tokens after a bad seam may be likely ("the capital of" → "the two brothers were").
_CROSSOVERS, _TOKENS_AFTER = 48, 3
_FINALISTS, _FINAL_TOKENS_AFTER = 8, 8
_BRANCHES = 20  # sequences per row that the branches count as in a batch; the fastest of the tried values, 3 to 40


class CrossedTexts:
    """Texts split into chunks, with the tokens of every chunk.

    Args:
        texts: Two or more texts.
        weights: Share of each text; they sum to 1.
        tokens: Tokenizer of the model.
        seed: Seed of sampling.
    """

    def __init__(self, texts: Sequence[str], weights: Sequence[float], tokens: Tokens, seed: int = 0) -> None:
        self.weights, self.seed = weights, seed
        self.texts = [CutText(text, " ".join([*texts[:t], *texts[t + 1 :]])) for t, text in enumerate(texts)]
        self.chunks = [tokens.by_chunk(text.text, text.ends) for text in self.texts]
        self.wanted = sorted({token for text in self.chunks for chunk in text for token in chunk} | {tokens.end})
        self._columns = {token: column for column, token in enumerate(self.wanted)}
        self._end = tokens.end
        self._offsets = [running_total(map(len, chunks)) for chunks in self.chunks]  # tokens before each position
        self.sequences = [[token for chunk in chunks for token in chunk] for chunks in self.chunks]  # of each text

    @property
    def can_be_cut(self) -> bool:
        return all(len(text) > 1 for text in self.texts)

    @property
    def ends(self) -> list[str]:
        """The text at an end of the path, if the ratio is within SHARE_TOLERANCE of this end (two texts only)."""
        if len(self.texts) > 2 or min(self.weights) > SHARE_TOLERANCE:
            return []
        return [self.texts[0 if self.weights[0] >= 0.5 else 1].text]

    def columns(self, tokens: Sequence[int]) -> list[int]:
        return [self._columns[token] for token in tokens]

    def branch(self, seam: Seam, tokens_after: int) -> Branch:
        """Return the tokens to score after a seam. The last one is only predicted, so it is not an input."""
        x, i, y, j = seam
        return Branch(x, int(self._offsets[x][i]), self._tokens_from(y, j, tokens_after)[:-1])

    def _tokens_from(self, t: int, position: int, count: int) -> list[int]:
        start = int(self._offsets[t][position])
        return [*self.sequences[t], self._end][start : start + count]

    def change(self, seam: Seam, branch_log_p: Tensor, log_p: Sequence[Tensor]) -> float:
        """Return the change in log p of the second and following tokens after a seam, compared to their own text.

        Args:
            seam: Seam x[:i] → y[j:].
            branch_log_p: Log p of the wanted tokens after each of the T tokens of the seam's `branch`, (T, wanted).
            log_p: Log p of the wanted tokens at each position of each text, (T + 1, wanted).
        """
        _, _, y, j = seam
        columns = self.columns(self._tokens_from(y, j, 1 + len(branch_log_p))[1:])
        start = int(self._offsets[y][j]) + 1
        after_seam = branch_log_p[range(len(columns)), columns]
        in_own_text = log_p[y][range(start, start + len(columns)), columns]
        return float((after_seam.double() - in_own_text.double()).sum())

    def best(self, log_p: Sequence[Tensor], count: int) -> list[Crossover]:
        """Return the best crossovers; if neither they nor an end are near the ratio or weights, some farther away.

        Args:
            log_p: Log p of the wanted tokens at each position of each text, (T + 1, wanted).
            count: Maximum number of crossovers.
        """
        scores = self.scores(log_p)

        def best(tolerance: float) -> list[Crossover]:
            if len(self.texts) > 2:
                return ChainSearch(self.texts, scores).best(self.weights, count, tolerance)
            a, b = self.texts
            return CrossoverSearch(a, b, scores).best(self.weights[0], count, tolerance)

        found = best(SHARE_TOLERANCE)
        return found if found or self.ends else best(WIDE_SHARE_TOLERANCE)

    def scores(self, log_p: Sequence[Tensor]) -> SeamScores:
        """Score the runs and seams, given log p of the wanted tokens at each position of each text."""
        tables = [table.double().numpy() for table in log_p]
        offsets = self._offsets
        own, firsts = [], []
        for sequence, table, offset in zip(self.sequences, tables, offsets, strict=True):
            columns = self.columns([*sequence, self._end])
            of_token = table[np.arange(len(columns)), columns]  # (T + 1,), the end marker is last
            before = np.concatenate([[0.0], np.cumsum(of_token)])
            runs = before[offset]
            runs[-1] = before[-1]  # a run up to the end of the text includes the end marker
            own.append((runs, of_token[offset]))
            firsts.append(np.array(columns)[offset])  # (n + 1,): column of the first token after each position

        def seams(x: int, y: int) -> FloatArray:
            after_seam = tables[x][offsets[x]][:, firsts[y]]  # (n + 1, m + 1): log p of y's first token after x[:i]
            return after_seam - own[y][1]

        return SeamScores(
            seams={(x, y): seams(x, y) for x, y in permutations(range(len(offsets)), 2)},
            runs=[runs for runs, _ in own],
            lengths=offsets,
            per_token=_PER_TOKEN,
        )

    def changed(self, crossover: Crossover, changes: Mapping[Seam, float]) -> Crossover:
        """Return the crossover with a score that includes the changes after its seams."""
        tokens = sum(int(self._offsets[t][stop] - self._offsets[t][start]) for t, start, stop in crossover.runs)
        change = sum(changes[seam] for seam in crossover.seams)
        return replace(crossover, score=crossover.score + _PER_TOKEN * change / (tokens + 1))


def sequences_of(texts: int) -> int:
    """Return the number of sequences per row that must fit in a batch: the texts, and an estimate for the branches.

    With a lower estimate, batches are larger but slower, because their tensors do not fit in the cache.
    """
    return texts + _BRANCHES


def cross(engine: Engine, mixture: Mixture, rows: Sequence[CrossedTexts], decoding: Decoding) -> list[list[str]]:
    """Return the best crossovers of each row of texts, or a sample of good ones.

    Args:
        engine: Engine that scores the texts.
        mixture: What the decoder attends to, for B rows.
        rows: B rows with the same number of texts each.
        decoding: Number of candidates (`n`), and whether to sample them (`sample`, with temperature, top-k and top-p).

    Returns:
        At most `n` different texts per row. If the texts are too short or too similar for a crossover near the ratio:
        the text at the end of the path near the ratio, if any.
    """
    scores = engine.score(
        mixture.states, mixture.mask, [row.sequences for row in rows], [row.wanted for row in rows], mixture.prior
    )
    if any(log_p.isnan().any() for row in scores.log_p for log_p in row):
        raise LindaError("the decoder returned NaN: the model is damaged; download it again")
    count = max(decoding.n, _CROSSOVERS)
    candidates = [row.best(log_p, count) for row, log_p in zip(rows, scores.log_p, strict=True)]
    found = _rescored(scores, rows, candidates, _TOKENS_AFTER)
    if decoding.sample:
        found = [_drawn(crossovers, row.seed, decoding) for crossovers, row in zip(found, rows, strict=True)]
    else:
        found = _finals(scores, rows, candidates, found, max(decoding.n, _FINALISTS))
    return [
        [crossover.text(*row.texts) for crossover in crossovers[: decoding.n]] or row.ends
        for crossovers, row in zip(found, rows, strict=True)
    ]


def _rescored(
    scores: ForcedScores, rows: Sequence[CrossedTexts], found: Sequence[Sequence[Crossover]], tokens_after: int
) -> list[list[Crossover]]:
    """Score the tokens after the seams, and sort the crossovers again.

    The seams of a crossover are scored independently: the first has little effect on the tokens after the second.

    Args:
        scores: Scores of the texts.
        rows: The texts.
        found: Crossovers of each row, with the scores of step 1.
        tokens_after: Number of tokens to score after each seam.
    """
    seams = [sorted({seam for crossover in crossovers for seam in crossover.seams}) for crossovers in found]
    branches = [[row.branch(seam, tokens_after) for seam in of_row] for row, of_row in zip(rows, seams, strict=True)]
    if not any(branches):
        return [list(crossovers) for crossovers in found]
    branch_log_p = scores.score_branches(branches)
    ordered = []
    for number, row in enumerate(rows):
        changes = {
            seam: row.change(seam, log_p, scores.log_p[number])
            for seam, log_p in zip(seams[number], branch_log_p[number], strict=True)
        }
        scored = [row.changed(crossover, changes) for crossover in found[number]]
        ordered.append(sorted(scored, key=lambda crossover: -crossover.score))
    return ordered


def _finals(
    scores: ForcedScores,
    rows: Sequence[CrossedTexts],
    candidates: Sequence[list[Crossover]],
    ranked: Sequence[list[Crossover]],
    count: int,
) -> list[list[Crossover]]:
    """Score more tokens for the best `count` of the ranked crossovers, and sort them again."""
    finalists = []
    for crossovers, order in zip(candidates, ranked, strict=True):
        by_runs = {crossover.runs: crossover for crossover in crossovers}
        finalists.append([by_runs[crossover.runs] for crossover in order[:count]])
    return _rescored(scores, rows, finalists, _FINAL_TOKENS_AFTER)


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
