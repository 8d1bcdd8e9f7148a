"""Minibatches from files of middles (`linda middles make`).

A minibatch contains pairs of texts, each encoded once, and several rows per pair: its middles, and copies at the ends.
Everything is a function of (seed, epoch, window, step, rank), as in `pair_batches`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from linda.crossovers import Crossover, CutText
from linda.errors import LindaError, checked_ratio, checked_text
from linda.files.textio import open_text
from linda.model.loss import CHOICE_TEMPERATURE, IGNORED
from linda.training.corpus import Rng, mask_words, purpose_stream
from linda.training.pair_batches import EncodedPairs, Tokenizer, padded_ids

_SHARDS_IN_WINDOW = 8  # files that are in memory, and sorted by length, at a time
_LENGTH_JITTER = 0.15  # relative noise on the sort key, so that minibatches vary in length and composition


@dataclass(frozen=True)
class Candidate:
    """A crossover of two texts, and its score under a language model (mean log-likelihood per token)."""

    target: str
    score: float


@dataclass(frozen=True)
class MiddleRow:
    """The candidates for one pair and ratio, best first."""

    alpha: float
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True)
class MiddlePair:
    """Two texts and the candidates between them."""

    a: str
    b: str
    rows: tuple[MiddleRow, ...]


@dataclass
class MiddleBatch(EncodedPairs):
    """P pairs and R targets, several of which may be candidates for the same row.

    Inputs are (P, L), targets (R, T), padded with IGNORED. Each target has a pair, a row that it is a candidate for, a
    ratio alpha and a weight, (R,) each; the weights of the candidates of a row sum to 1.
    """

    pair: Tensor
    targets: Tensor
    alpha: Tensor
    row: Tensor
    weight: Tensor


def shard_files(folders: Sequence[str]) -> list[Path]:
    """Return all files of middles in some folders, in a fixed order."""
    files = [path for folder in folders for path in sorted(Path(folder).glob("middles-*.jsonl.gz"))]
    if not files:
        raise LindaError(f"there are no middles in {', '.join(folders)}; create them with `linda middles make`")
    return files


def read_middles(path: Path) -> list[MiddlePair]:
    """Read the pairs of one file, with all their middles."""
    pairs: dict[tuple[str, str], list[MiddleRow]] = {}
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            try:
                stored = json.loads(line)
                texts = checked_text(stored["a"], "text a"), checked_text(stored["b"], "text b")
                pairs.setdefault(texts, []).append(_row(stored))
            except (ValueError, KeyError, TypeError, IndexError):
                raise LindaError(
                    f"{path}, line {number}: not a middle; create the file again with `linda middles make`"
                ) from None
    return [MiddlePair(a, b, tuple(rows)) for (a, b), rows in pairs.items()]


def _row(stored: dict[str, Any]) -> MiddleRow:
    """Read one line of a file. The best candidate is stored as text, the others as runs of chunks."""
    best = Candidate(checked_text(stored["target"], "target"), float(stored["score"]))
    cut = CutText(stored["a"], stored["b"]), CutText(stored["b"], stored["a"])
    others = []
    for score, share, *numbers in stored["others"]:
        runs = tuple((numbers[i], numbers[i + 1], numbers[i + 2]) for i in range(0, len(numbers), 3))
        others.append(Candidate(Crossover(runs, share, score).text(*cut), float(score)))
    return MiddleRow(checked_ratio(stored["alpha"], "alpha"), (best, *others))


@dataclass
class MiddleSampler:
    """Creates an endless stream of minibatches of middles.

    Args:
        files: Files of middles (see `shard_files`).
        tokenize: Function from masked texts and plain texts to token ids.
        mask_token: Token that replaces masked words.
        mask_probability: Probability of masking a word.
        pad_id: Padding id of the inputs.
        pairs: Pairs per minibatch.
        ends: Share of pairs with a copy of one text as an extra target, at its end of the path.
        candidates: Maximum number of candidates per row: the best, and others at random.
        seed: Seed of all random choices.
        rank: Rank of this process.
        ranks: Number of processes.
    """

    files: Sequence[Path]
    tokenize: Tokenizer
    mask_token: str
    mask_probability: float
    pad_id: int
    pairs: int
    ends: float = 0.4
    candidates: int = 1
    seed: int = 0
    rank: int = 0
    ranks: int = 1

    def batches(self, first_step: int = 0) -> Iterator[MiddleBatch]:
        """Yield the minibatches from `first_step` on, without computing those before it."""
        step = 0
        for epoch in itertools.count():
            order = purpose_stream("window", self.seed, epoch).permutation(len(self.files))
            start_of_epoch = step
            for number, start in enumerate(range(0, len(order), _SHARDS_IN_WINDOW)):
                window = [
                    pair for i in order[start : start + _SHARDS_IN_WINDOW] for pair in read_middles(self.files[i])
                ]
                rng = purpose_stream("draw", self.seed, epoch, number)
                groups = self._groups(window, rng)
                mine = groups[self.rank : len(groups) - len(groups) % self.ranks : self.ranks]
                for group in mine:
                    if step >= first_step:
                        yield self._batch(group, purpose_stream("alpha", self.seed, step, self.rank))
                    step += 1
            if step == start_of_epoch:
                raise LindaError(f"too few middles: {self.pairs * self.ranks} pairs per file are needed; lower --pairs")

    def _groups(self, window: list[MiddlePair], rng: Rng) -> list[list[MiddlePair]]:
        jitter = rng.normal(1.0, _LENGTH_JITTER, size=len(window))
        lengths = [(len(pair.a) + len(pair.b)) * factor for pair, factor in zip(window, jitter, strict=True)]
        order = sorted(range(len(window)), key=lengths.__getitem__)
        groups = [order[i : i + self.pairs] for i in range(0, len(order) - self.pairs + 1, self.pairs)]
        return [[window[i] for i in groups[g]] for g in rng.permutation(len(groups))]

    def _batch(self, pairs: Sequence[MiddlePair], rng: Rng) -> MiddleBatch:
        return middle_batch([self._variant(pair, rng) for pair in pairs], self.tokenize, self.pad_id, self._masked(rng))

    def _variant(self, pair: MiddlePair, rng: Rng) -> MiddlePair:
        """Draw candidates of a pair, exchange its texts with probability ½, and add a copy with probability `ends`."""
        rows = [MiddleRow(row.alpha, self._chosen(row.candidates, rng)) for row in pair.rows]
        if rng.random() < 0.5:  # the model should not depend on the order of the texts
            pair = MiddlePair(pair.b, pair.a, pair.rows)
            rows = [MiddleRow(1 - row.alpha, row.candidates) for row in rows]
        if rng.random() < self.ends:
            alpha, copy = (1.0, pair.a) if rng.random() < 0.5 else (0.0, pair.b)
            rows.append(MiddleRow(alpha, (Candidate(copy, 0.0),)))
        return MiddlePair(pair.a, pair.b, tuple(rows))

    def _chosen(self, candidates: tuple[Candidate, ...], rng: Rng) -> tuple[Candidate, ...]:
        """Return the best candidate, and some of the others at random."""
        others = rng.permutation(len(candidates) - 1)[: self.candidates - 1]
        return candidates[0], *(candidates[1 + i] for i in others)

    def _masked(self, rng: Rng) -> Callable[[str], str]:
        return lambda text: mask_words(text, self.mask_probability, self.mask_token, rng)


def middle_batch(
    pairs: Sequence[MiddlePair], tokenize: Tokenizer, pad_id: int, masked: Callable[[str], str] = str
) -> MiddleBatch:
    """Create the minibatch of some pairs, with all their rows and candidates.

    Args:
        pairs: P pairs.
        tokenize: Function from masked texts and plain texts to token ids.
        pad_id: Padding id of the inputs.
        masked: Function that masks words of a text for the encoder.
    """
    sides = [pair.a for pair in pairs], [pair.b for pair in pairs]
    inputs = [tokenize([masked(text) for text in side], side)[0] for side in sides]
    rows = [(number, row) for number, pair in enumerate(pairs) for row in pair.rows]
    candidates = [(place, candidate) for place, (_, row) in enumerate(rows) for candidate in row.candidates]
    of_row = torch.tensor([place for place, _ in candidates])
    targets = [candidate.target for _, candidate in candidates]
    scores = [torch.tensor([candidate.score for candidate in row.candidates]) for _, row in rows]
    return MiddleBatch(
        *padded_ids(inputs[0], pad_id),
        *padded_ids(inputs[1], pad_id),
        pair=torch.tensor([number for number, _ in rows])[of_row],
        targets=padded_ids(tokenize(targets, targets)[1], IGNORED)[0],
        alpha=torch.tensor([row.alpha for _, row in rows])[of_row],
        row=of_row,
        weight=torch.cat([(of_one_row / CHOICE_TEMPERATURE).softmax(0) for of_one_row in scores]),
    )
