"""The length converter (§3.2 of the paper): convert two sequences of states to the same length, and mix them.

α is the share of the *first* text: α = 1 gives a, α = 0 gives b.

Shapes: B pairs, L tokens of a text, L̃ tokens of the mixture, d the width of a state.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

# 0.1·3 and the like are slightly above the exact value: rounding up α·Lᵃ + (1−α)·Lᵇ could add a token.
_ROUNDING_ERROR = 1e-4


class Mixture(NamedTuple):
    """What the decoder attends to."""

    states: Tensor  # (B, S, d)
    mask: Tensor  # (B, S): 1 for real states
    lengths: Tensor  # (B,): L̃ of Eq. 3, the target length
    prior: Tensor | None = None  # (B, S): added to the attention scores; None adds nothing


def mixed_lengths(lengths_a: Tensor, lengths_b: Tensor, alpha: Tensor) -> Tensor:
    """Compute Eq. 3: L̃ = ⌈α·Lᵃ + (1−α)·Lᵇ⌉, at least 1. All (B,)."""
    alpha = alpha.double()
    length = alpha * lengths_a + (1 - alpha) * lengths_b
    return torch.ceil(length - _ROUNDING_ERROR).clamp(min=1).long()


class LengthConverter(nn.Module):
    """Stretches or shrinks a sequence of states to a given length by Gaussian attention on positions (§3.2).

    h̃ⱼ = Σₖ wₖʲ hₖ,   wʲ = softmaxₖ(aʲ),   aₖʲ = −(k − (L/L̃)·j)² / 2σ²,   k = 1…L, j = 1…L̃.

    σ is the only weight that the paper adds to the encoder-decoder; log σ is learned, so that σ is positive.
    """

    def __init__(self, sigma: float = 0.4) -> None:
        super().__init__()
        self.log_sigma = nn.Parameter(torch.tensor(math.log(sigma)))

    @property
    def sigma(self) -> Tensor:
        return self.log_sigma.exp()

    def forward(self, states: Tensor, lengths: Tensor, target_lengths: Tensor) -> Tensor:
        """Convert states (B, L, d) of lengths (B,) to target_lengths (B,): (B, max L̃, d), zero beyond each L̃."""
        k = torch.arange(1, states.shape[1] + 1, device=states.device)  # (L,)
        j = torch.arange(1, int(target_lengths.max()) + 1, device=states.device)  # (L̃,)
        centre = (lengths / target_lengths)[:, None] * j  # (B, L̃): centre of attention of position j
        logits = -((k - centre[:, :, None]) ** 2) / (2 * self.sigma**2)  # (B, L̃, L)
        is_real = k <= lengths[:, None]  # (B, L)
        weights = logits.masked_fill(~is_real[:, None, :], -torch.inf).softmax(dim=-1)
        is_output = j <= target_lengths[:, None]  # (B, L̃)
        weights = weights * is_output[:, :, None]
        return torch.bmm(weights.to(states.dtype), states)

    def mix(self, states_a: Tensor, mask_a: Tensor, states_b: Tensor, mask_b: Tensor, alpha: Tensor) -> Mixture:
        """Mix by Eq. 4, h̃ᵢ = α·h̃ᵃᵢ + (1−α)·h̃ᵇᵢ: states (B, Lᵃ, d) and (B, Lᵇ, d), α (B,) → L̃ states per pair."""
        lengths_a, lengths_b = mask_a.sum(1), mask_b.sum(1)
        lengths = mixed_lengths(lengths_a, lengths_b, alpha)  # (B,)
        share = alpha.to(states_a.dtype)[:, None, None]
        mixed = share * self(states_a, lengths_a, lengths) + (1 - share) * self(states_b, lengths_b, lengths)
        mask = torch.arange(mixed.shape[1], device=mixed.device) < lengths[:, None]
        return Mixture(mixed, mask.long(), lengths)
