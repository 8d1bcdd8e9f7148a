"""The softmax of training over a part of the vocabulary: a third of an update's work, for a model as small as ours.

log Σ exp over V pieces is estimated from those of the minibatch's own targets, the most frequent ones, all exactly, and
a few of the R others, drawn afresh for each minibatch, which stand for all of them:

    Z ≈ Σ_{own, frequent} exp(lᵢ) + (R/r) Σ_{r drawn} exp(lᵢ)

The mean of the estimate is Z. A weight of R/r is an addition of log(R/r) to the logit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_FREQUENT_SHARE = 2 / 3  # of the pieces that are not the minibatch's own; the others are drawn


@dataclass(frozen=True)
class PieceSample:
    """n pieces that stand for a whole vocabulary of V."""

    pieces: Tensor  # (n,)
    log_weights: Tensor  # (n,) 0, or log(R/r) for the pieces that were drawn
    columns: Tensor  # (V,) the place of a piece among the n; −1 where it has none

    @classmethod
    def draw(cls, own: Tensor, vocabulary: int, size: int, generator: torch.Generator | None = None) -> PieceSample:
        """own: the pieces of the targets, in any shape. `size` others at most are added.

        Frequent means a low number, as SentencePiece, BART's dictionary and `linda cut-base` number their pieces.
        """
        known = torch.zeros(vocabulary, dtype=torch.bool, device=own.device)
        known[: int(size * _FREQUENT_SHARE)] = True
        known[own.flatten()] = True
        others = (~known).nonzero()[:, 0]  # (R,)
        count = min(len(others), size - int(size * _FREQUENT_SHARE))
        order = torch.randperm(len(others), generator=generator, device=own.device)
        pieces = torch.cat([known.nonzero()[:, 0], others[order[:count]]])
        log_weights = torch.zeros(len(pieces), device=own.device)
        if count:
            log_weights[-count:] = math.log(len(others) / count)
        columns = torch.full((vocabulary,), -1, device=own.device)
        columns[pieces] = torch.arange(len(pieces), device=own.device)
        return cls(pieces, log_weights, columns)
