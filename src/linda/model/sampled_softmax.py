"""The softmax over a sample of the vocabulary, which makes an update of a small model a third cheaper.

The sum over V tokens is exact for the targets of the minibatch and the most frequent tokens; for the R others it is
estimated from r tokens, drawn anew for each minibatch:

    Z ≈ Σ_{own, frequent} exp(lᵢ) + (R/r) Σ_{r drawn} exp(lᵢ)

The estimate of Z is unbiased. The weight R/r is applied by adding log(R/r) to the logit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_FREQUENT_SHARE = 2 / 3  # share of the sample that is the most frequent tokens; the rest is drawn at random


@dataclass(frozen=True)
class PieceSample:
    """n tokens that represent a vocabulary of V tokens."""

    pieces: Tensor  # (n,)
    log_weights: Tensor  # (n,) log(R/r) for drawn tokens, else 0
    columns: Tensor  # (V,) the index of a token among the n, or −1

    @classmethod
    def draw(cls, own: Tensor, vocabulary: int, size: int, generator: torch.Generator | None = None) -> PieceSample:
        """Sample at most `size` tokens in addition to `own`, the tokens of the targets (any shape).

        Low ids are assumed to be frequent tokens, as in SentencePiece, BART's dictionary and `linda cut-base`.
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
