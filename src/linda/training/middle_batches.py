"""Files of middles in (`linda middles make`), minibatches out.

A minibatch holds pairs of texts, each encoded once, and several rows per pair: its middles, and copies at the ends.
Everything is a function of (seed, epoch, window, step, rank), as in `corpus`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from linda.errors import LindaError
from linda.files.textio import open_text
from linda.model.loss import IGNORED
from linda.training.corpus import Rng, Tokenizer, mask_words, padded_ids, random_stream

_SHARDS_IN_WINDOW = 8  # held in memory and sorted by length at a time
_LENGTH_JITTER = 0.15  # rows of a minibatch are of like length, but not always of the same


@dataclass(frozen=True)
class MiddleRow:
    """A target between two texts: the share of its words that are from the first."""

    share: float
    target: str


@dataclass(frozen=True)
class MiddlePair:
    """Two texts and what lies between them."""

    a: str
    b: str
    rows: tuple[MiddleRow, ...]


@dataclass
class MiddleBatch:
    """P pairs and R rows: inputs (P, L), the pair (R,) of each row, targets (R, T) padded with IGNORED, alpha (R,)."""

    ids_a: Tensor
    mask_a: Tensor
    ids_b: Tensor
    mask_b: Tensor
    pair: Tensor
    targets: Tensor
    alpha: Tensor

    @property
    def tokens(self) -> int:
        return int(self.mask_a.sum() + self.mask_b.sum())

    def to(self, device: torch.device) -> dict[str, Tensor]:
        """The arguments of `LindaModel.forward`."""
        return {name: tensor.to(device) for name, tensor in vars(self).items()}


def shard_files(folders: Sequence[str]) -> list[Path]:
    """All files of middles in some folders, in a fixed order."""
    files = [path for folder in folders for path in sorted(Path(folder).glob("middles-*.jsonl.gz"))]
    if not files:
        raise LindaError(f"no file of middles in {', '.join(folders)}; make some with `linda middles make`")
    return files


def read_middles(path: Path) -> list[MiddlePair]:
    """The pairs of one file, with all their middles."""
    pairs: dict[tuple[str, str], list[MiddleRow]] = {}
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            try:
                stored = json.loads(line)
                row = MiddleRow(float(stored["share"]), str(stored["target"]))
                pairs.setdefault((str(stored["a"]), str(stored["b"])), []).append(row)
            except (ValueError, KeyError, TypeError):
                raise LindaError(f"{path}, line {number}: not a middle; make the file again") from None
    return [MiddlePair(a, b, tuple(rows)) for (a, b), rows in pairs.items()]


@dataclass
class MiddleSampler:
    """Minibatches of middles without end.

    Args:
        files: as `shard_files` gives them.
        tokenize: masked texts and plain texts to token ids.
        mask_token: what a masked word becomes.
        mask_probability: of each word.
        pad_id: of the inputs.
        pairs: in a minibatch.
        ends: share of pairs that also get a copy of one text, at its end of the path.
        seed: of all random choices.
        rank: of this process.
        ranks: processes.
    """

    files: Sequence[Path]
    tokenize: Tokenizer
    mask_token: str
    mask_probability: float
    pad_id: int
    pairs: int
    ends: float = 0.4
    seed: int = 0
    rank: int = 0
    ranks: int = 1

    def batches(self, first_step: int = 0) -> Iterator[MiddleBatch]:
        """Minibatches from a step on; those before it are skipped, not made."""
        step = 0
        for epoch in itertools.count():
            order = random_stream("window", self.seed, epoch).permutation(len(self.files))
            start_of_epoch = step
            for number, start in enumerate(range(0, len(order), _SHARDS_IN_WINDOW)):
                window = [
                    pair for i in order[start : start + _SHARDS_IN_WINDOW] for pair in read_middles(self.files[i])
                ]
                rng = random_stream("draw", self.seed, epoch, number)
                groups = self._groups(window, rng)
                mine = groups[self.rank : len(groups) - len(groups) % self.ranks : self.ranks]
                for group in mine:
                    if step >= first_step:
                        yield self._batch(group, random_stream("alpha", self.seed, step, self.rank))
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
        texts: tuple[list[str], list[str]] = [], []
        targets, alpha, of_pair = [], [], []
        for number, pair in enumerate(pairs):
            # Which text comes first must not matter.
            is_swapped = rng.random() < 0.5
            a, b = (pair.b, pair.a) if is_swapped else (pair.a, pair.b)
            rows = [(1 - row.share if is_swapped else row.share, row.target) for row in pair.rows]
            if rng.random() < self.ends:
                rows.append((1.0, a) if rng.random() < 0.5 else (0.0, b))
            for share, target in rows:
                alpha.append(share)
                targets.append(target)
                of_pair.append(number)
            for side, text in zip(texts, (a, b), strict=True):
                side.append(text)
        masked = [[mask_words(text, self.mask_probability, self.mask_token, rng) for text in side] for side in texts]
        inputs_a, _ = self.tokenize(masked[0], texts[0])
        inputs_b, _ = self.tokenize(masked[1], texts[1])
        _, target_ids = self.tokenize(targets, targets)
        ids_a, mask_a = padded_ids(inputs_a, self.pad_id)
        ids_b, mask_b = padded_ids(inputs_b, self.pad_id)
        return MiddleBatch(
            ids_a,
            mask_a,
            ids_b,
            mask_b,
            pair=torch.tensor(of_pair),
            targets=padded_ids(target_ids, IGNORED)[0],
            alpha=torch.tensor(alpha),
        )
