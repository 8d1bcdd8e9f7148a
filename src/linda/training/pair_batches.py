"""Minibatches of masked pairs of sentences, bucketed by length.

Everything is a function of (seed, epoch, window, step, rank): a resumed run trains on the same data as an uninterrupted
one, and the global random state is not used.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from linda.errors import LindaError
from linda.model.batching import by_length, padded
from linda.model.loss import IGNORED, draw_alpha
from linda.training.corpus import Corpus, Rng, mask_words, purpose_stream, restyle

# Masked texts and their targets → token ids of each.
Tokenizer = Callable[[list[str], list[str]], tuple[list[list[int]], list[list[int]]]]


class Minibatch(ABC):
    """A minibatch; the fields of a subclass are the arguments of `LindaModel.forward`."""

    @property
    @abstractmethod
    def tokens(self) -> int:
        """Number of tokens, without padding."""

    def to(self, device: torch.device) -> dict[str, Tensor]:
        """Move the tensors to a device, and return them as arguments of `LindaModel.forward`."""
        return {name: tensor.to(device) for name, tensor in vars(self).items()}


@dataclass
class EncodedPairs(Minibatch):
    """The inputs of pairs of texts, (M, L) each, with masks of real positions."""

    ids_a: Tensor
    mask_a: Tensor
    ids_b: Tensor
    mask_b: Tensor

    @property
    def tokens(self) -> int:
        return int(self.mask_a.sum() + self.mask_b.sum())


@dataclass
class PairBatch(EncodedPairs):
    """M pairs with targets (M, T), padded with IGNORED, and ratios alpha (M,)."""

    targets_a: Tensor
    targets_b: Tensor
    alpha: Tensor


@dataclass
class TextBatch(Minibatch):
    """Plain sentences (M, T), padded with IGNORED, for language modelling without a source text."""

    texts: Tensor

    @classmethod
    def of(cls, pairs: PairBatch) -> TextBatch:
        """Return the sentences of some pairs."""
        sides = pairs.targets_a, pairs.targets_b
        width = max(side.shape[1] for side in sides)
        return cls(torch.cat([F.pad(side, (0, width - side.shape[1]), value=IGNORED) for side in sides]))

    @property
    def tokens(self) -> int:
        return int((self.texts != IGNORED).sum())


@dataclass
class MaskedSentence:
    """A sentence, and the token ids of its masked and its plain form."""

    text: str
    input_ids: list[int]
    target_ids: list[int]


@dataclass
class PairSampler:
    """Splits a stream of sentences into minibatches of pairs that need no padding.

    A window of sentences is sorted by length and split into groups of M rows of (almost always) equal length. Two
    random groups are a minibatch, one of first texts and one of second texts: both are dense, and with the single ratio
    of a minibatch (§4) so is the mixture. A corpus that fits into a window is kept in memory; a larger one is streamed
    window by window.
    """

    corpus: Corpus
    tokenize: Tokenizer
    mask_token: str
    mask_probability: float
    pad_id: int
    pairs: int  # M
    seed: int = 0
    restyled: float = 0.0  # share of sentences in another style
    middle: float = 1.0  # as in `draw_alpha`
    mirrored: bool = False
    window: int = 2**16
    rank: int = 0
    ranks: int = 1

    def batches(self, first_step: int = 0) -> Iterator[tuple[int, PairBatch]]:
        """Yield (step, minibatch) without end from `first_step` on, without computing those before it."""
        step = 0
        for epoch, sentences in enumerate(self.corpus.epochs(self.seed)):
            start_of_epoch = step
            for number in itertools.count():
                window = list(itertools.islice(sentences, self.window))
                if not window:
                    break
                steps = self._group_count(len(window)) // 2 // self.ranks
                if steps and step + steps > first_step:
                    for index, pair in enumerate(self._pair_groups(window, epoch, number)):
                        if step + index >= first_step:
                            yield step + index, self._batch(*pair, step + index)
                step += steps
            if step == start_of_epoch:
                raise LindaError(f"the corpus is too small; give at least {2 * self.ranks} sentences (2 per process)")

    def _group_size(self, sentences: int) -> int:
        return min(self.pairs, sentences // (2 * self.ranks))

    def _group_count(self, sentences: int) -> int:
        size = self._group_size(sentences)
        return sentences // size if size else 0

    def _pair_groups(
        self, window: list[str], epoch: int, number: int
    ) -> Iterator[tuple[list[MaskedSentence], list[MaskedSentence]]]:
        """Yield this rank's minibatches of one window, each a group of first texts and a group of second texts."""
        rng = purpose_stream("window", self.seed, epoch, number)
        size = self._group_size(len(window))
        steps = self._group_count(len(window)) // 2 // self.ranks
        kept = rng.permutation(len(window))[: steps * 2 * self.ranks * size]  # the rest fills no group
        rows = self._rows([window[i] for i in kept], rng)
        groups = by_length(rows, lambda row: (len(row.input_ids), len(row.target_ids)), size)
        order = rng.permutation(len(groups)).reshape(-1, 2)
        shuffles = [rng.permutation(size) for _ in order]  # the same for all ranks
        for (first, second), shuffle in list(zip(order, shuffles, strict=True))[self.rank :: self.ranks]:
            group_b = [groups[second][i] for i in shuffle]
            yield groups[first], _rotated_apart(groups[first], group_b)

    def _rows(self, texts: list[str], rng: Rng) -> list[MaskedSentence]:
        texts = [restyle(text, rng) if rng.random() < self.restyled else text for text in texts]
        masked = [mask_words(text, self.mask_probability, self.mask_token, rng) for text in texts]
        inputs, targets = self.tokenize(masked, texts)
        return [MaskedSentence(*parts) for parts in zip(texts, inputs, targets, strict=True)]

    def _batch(self, group_a: list[MaskedSentence], group_b: list[MaskedSentence], step: int) -> PairBatch:
        alpha = draw_alpha(
            purpose_stream("alpha", self.seed, step, self.rank), mirrored=self.mirrored, middle=self.middle
        )
        return collate(group_a, group_b, alpha, self.pad_id)


def _rotated_apart(group_a: list[MaskedSentence], group_b: list[MaskedSentence]) -> list[MaskedSentence]:
    """Rotate `group_b` until no text is paired with itself, if possible: a corpus may contain duplicates."""
    for offset in range(len(group_b)):
        rotated = group_b[offset:] + group_b[:offset]
        if all(a.text != b.text for a, b in zip(group_a, rotated, strict=True)):
            return rotated
    return group_b


def collate(group_a: list[MaskedSentence], group_b: list[MaskedSentence], alpha: float, pad_id: int) -> PairBatch:
    """Combine two groups of M sentences into a minibatch of M pairs."""
    return PairBatch(
        *padded_ids([row.input_ids for row in group_a], pad_id),
        *padded_ids([row.input_ids for row in group_b], pad_id),
        targets_a=padded_ids([row.target_ids for row in group_a], IGNORED)[0],
        targets_b=padded_ids([row.target_ids for row in group_b], IGNORED)[0],
        alpha=torch.full((len(group_a),), alpha),
    )


def padded_ids(rows: list[list[int]], filler: int) -> tuple[Tensor, Tensor]:
    return padded([torch.tensor(row) for row in rows], filler, min_width=1)
