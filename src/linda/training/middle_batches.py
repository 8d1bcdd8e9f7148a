"""Files of middles in (`linda middles make`), minibatches out.

A minibatch holds pairs of texts, each encoded once, and several rows per pair: its middles, and copies at the ends.
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

_SHARDS_IN_WINDOW = 8  # held in memory and sorted by length at a time
_LENGTH_JITTER = 0.15  # rows of a minibatch are of like length, but not always of the same


@dataclass(frozen=True)
class Candidate:
    """A crossover of two texts, and how well a language model likes it (mean log-likelihood per token)."""

    target: str
    score: float


@dataclass(frozen=True)
class MiddleRow:
    """The candidates between two texts at one ratio, best first."""

    alpha: float
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True)
class MiddlePair:
    """Two texts and what lies between them."""

    a: str
    b: str
    rows: tuple[MiddleRow, ...]


@dataclass
class MiddleBatch(EncodedPairs):
    """P pairs and R targets, several of which may be candidates for the same row.

    Inputs are (P, L), targets (R, T), padded with IGNORED. Per target, (R,): its pair, the row that it is a candidate
    for, the ratio alpha, and its weight among the candidates of the row (they sum to 1).
    """

    pair: Tensor
    targets: Tensor
    alpha: Tensor
    row: Tensor
    weight: Tensor


def shard_files(folders: Sequence[str]) -> list[Path]:
    """All files of middles in some folders, in a fixed order."""
    files = [path for folder in folders for path in sorted(Path(folder).glob("middles-*.jsonl.gz"))]
    if not files:
        raise LindaError(f"{', '.join(folders)} contains no middles; create them with `linda middles make`")
    return files


def read_middles(path: Path) -> list[MiddlePair]:
    """The pairs of one file, with all their middles."""
    pairs: dict[tuple[str, str], list[MiddleRow]] = {}
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            try:
                stored = json.loads(line)
                texts = checked_text(stored["a"], "text a"), checked_text(stored["b"], "text b")
                pairs.setdefault(texts, []).append(_row(stored))
            except (ValueError, KeyError, TypeError, IndexError):
                raise LindaError(f"{path}, line {number}: not a middle; make the file again") from None
    return [MiddlePair(a, b, tuple(rows)) for (a, b), rows in pairs.items()]


def _row(stored: dict[str, Any]) -> MiddleRow:
    """One line of a file. The best candidate is stored as text, the others by their runs of chunks."""
    best = Candidate(checked_text(stored["target"], "target"), float(stored["score"]))
    cut = CutText(stored["a"], stored["b"]), CutText(stored["b"], stored["a"])
    others = []
    for score, share, *numbers in stored["others"]:
        runs = tuple((numbers[i], numbers[i + 1], numbers[i + 2]) for i in range(0, len(numbers), 3))
        others.append(Candidate(Crossover(runs, share, score).text(*cut), float(score)))
    return MiddleRow(checked_ratio(stored["alpha"], "alpha"), (best, *others))


@dataclass
class MiddleSampler:
    """Minibatches of middles without end.

    Args:
        files: As `shard_files` gives them.
        tokenize: Masked texts and plain texts to token ids.
        mask_token: What a masked word becomes.
        mask_probability: Of each word.
        pad_id: Of the inputs.
        pairs: In a minibatch.
        ends: Share of pairs that also get a copy of one text, at its end of the path.
        candidates: Per row: the best one, and others at random.
        seed: Of all random choices.
        rank: Of this process.
        ranks: Processes.
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
        """Minibatches from a step on; those before it are skipped, not made."""
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
                raise LindaError(f"too few middles: {self.pairs * self.ranks} pairs or more are needed in a file")

    def _groups(self, window: list[MiddlePair], rng: Rng) -> list[list[MiddlePair]]:
        jitter = rng.normal(1.0, _LENGTH_JITTER, size=len(window))
        lengths = [(len(pair.a) + len(pair.b)) * factor for pair, factor in zip(window, jitter, strict=True)]
        order = sorted(range(len(window)), key=lengths.__getitem__)
        groups = [order[i : i + self.pairs] for i in range(0, len(order) - self.pairs + 1, self.pairs)]
        return [[window[i] for i in groups[g]] for g in rng.permutation(len(groups))]

    def _batch(self, pairs: Sequence[MiddlePair], rng: Rng) -> MiddleBatch:
        return middle_batch([self._variant(pair, rng) for pair in pairs], self.tokenize, self.pad_id, self._masked(rng))

    def _variant(self, pair: MiddlePair, rng: Rng) -> MiddlePair:
        """The pair with some of its candidates, its texts exchanged or not, and a copy of one text or not."""
        rows = [MiddleRow(row.alpha, self._chosen(row.candidates, rng)) for row in pair.rows]
        if rng.random() < 0.5:  # which text comes first must not matter
            pair = MiddlePair(pair.b, pair.a, pair.rows)
            rows = [MiddleRow(1 - row.alpha, row.candidates) for row in rows]
        if rng.random() < self.ends:
            alpha, copy = (1.0, pair.a) if rng.random() < 0.5 else (0.0, pair.b)
            rows.append(MiddleRow(alpha, (Candidate(copy, 0.0),)))
        return MiddlePair(pair.a, pair.b, tuple(rows))

    def _chosen(self, candidates: tuple[Candidate, ...], rng: Rng) -> tuple[Candidate, ...]:
        """The best candidate, and some of the others."""
        others = rng.permutation(len(candidates) - 1)[: self.candidates - 1]
        return candidates[0], *(candidates[1 + i] for i in others)

    def _masked(self, rng: Rng) -> Callable[[str], str]:
        return lambda text: mask_words(text, self.mask_probability, self.mask_token, rng)


def middle_batch(
    pairs: Sequence[MiddlePair], tokenize: Tokenizer, pad_id: int, masked: Callable[[str], str] = str
) -> MiddleBatch:
    """The minibatch of some pairs, with all their rows and candidates.

    Args:
        pairs: P of them.
        tokenize: Masked texts and plain texts to token ids.
        pad_id: Of the inputs.
        masked: What the encoder reads of a text.
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
