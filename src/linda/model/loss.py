"""The training loss, Eq. 5 and 6 of the paper, and the distribution of α that it assumes.

Eq. 5 is the mean over α ~ U(0, 1) of

    −[α·log p(xᵃ | xᵃ, xᵇ, α) + (1−α)·log p(xᵇ | xᵃ, xᵇ, α)]

The mirrored form mixes each pair in both orders, with the first text as the only target: the mean over
α ~ Beta(2, 1) of

    −½·[log p(xᵃ | xᵃ, xᵇ, α) + log p(xᵇ | xᵇ, xᵃ, α)]

Beta(2, 1) is the uniform density weighted by α, so both means are equal; but the mirrored form spends no computation on
targets with almost no share in the mixture.

Mixing by attention is trained on targets y between two texts ("middles"): −log p(y | xᵃ, xᵇ, α). The decoder is also
trained as a language model, without a source text: −log p(x) of plain sentences, and a listwise ranking loss over the
crossovers yᵏ of a pair, with target weights wᵏ (they sum to 1) from the scores of a larger language model, and mean
log-likelihoods per token ℓᵏ = log p(yᵏ)/|yᵏ|:

    −Σₖ wᵏ·log (exp(ℓᵏ/τ) / Σₗ exp(ℓˡ/τ))

Shapes: B pairs, L tokens of a text, T tokens of a target, d the width of a state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

IGNORED = -100  # padding of targets; the default ignore_index of PyTorch's cross-entropy
CHOICE_WEIGHT = 4.0  # weight of the choice among candidates in the loss of middles
CHOICE_TEMPERATURE = 0.15  # τ, nats per token


@dataclass
class LindaOutput:
    """The loss of a minibatch: sums over tokens, means over pairs, as in Eq. 5 and 6."""

    loss: Tensor  # Eq. 6: reconstruction + penalty
    reconstruction: Tensor  # Eq. 5
    penalty: Tensor  # λ/M ΣΣ‖h‖²
    loss_per_token: Tensor  # Eq. 5 divided by the number of tokens, for logs
    state_norm: Tensor  # mean ‖h‖ over real positions
    choice: Tensor | None = None  # cross-entropy of the choice among candidates, nats per row; middles only
    log_p_a: Tensor | None = None  # (B,) log p(xᵃ | xᵃ, xᵇ, α); pairs only
    log_p_b: Tensor | None = None  # (B,) log p(xᵇ | xᵃ, xᵇ, α); pairs only


def draw_alpha(random: np.random.Generator, *, mirrored: bool, middle: float = 1.0) -> float:
    """Draw the ratio of a minibatch: α ~ Beta(middle, middle), weighted by α if the loss is mirrored.

    middle = 1 is the paper's U(0, 1), or Beta(2, 1) if mirrored; larger values concentrate α around ½.
    """
    return random.beta(middle + mirrored, middle)


def target_shares(alpha: Tensor, *, mirrored: bool) -> tuple[Tensor, Tensor]:
    """Return the weights (B,) of the two targets in the loss."""
    if mirrored:
        half = torch.full_like(alpha, 0.5)
        return half, half
    return alpha, 1 - alpha


def as_targets(input_ids: Tensor, attention_mask: Tensor) -> Tensor:
    """Replace padding in token ids (B, T) by IGNORED."""
    return input_ids.masked_fill(attention_mask == 0, IGNORED)


@dataclass(frozen=True)
class StateNorms:
    """The norms of the states of both texts, without padding."""

    squared_a: Tensor  # (B, L) ‖h‖², 0 for padding
    squared_b: Tensor
    positions: Tensor  # number of positions without padding

    @classmethod
    def of(cls, states_a: Tensor, mask_a: Tensor, states_b: Tensor, mask_b: Tensor) -> StateNorms:
        """Compute the norms of states (B, L, d) with masks (B, L)."""
        return cls(
            states_a.float().square().sum(-1) * mask_a,
            states_b.float().square().sum(-1) * mask_b,
            mask_a.sum() + mask_b.sum(),
        )

    def penalty(self, weight: float) -> Tensor:
        """Compute the second term of Eq. 6: λ/M ΣΣ‖h‖²."""
        return weight * (self.squared_a.sum(1) + self.squared_b.sum(1)).mean()

    @property
    def mean(self) -> Tensor:
        return (self.squared_a.detach().sqrt().sum() + self.squared_b.detach().sqrt().sum()) / self.positions


def linda_loss(
    log_p_a: Tensor,
    log_p_b: Tensor,
    targets_a: Tensor,
    targets_b: Tensor,
    alpha: Tensor,
    norms: StateNorms,
    *,
    mirrored: bool,
    norm_penalty: float,
) -> LindaOutput:
    """Compute Eq. 6 for B pairs.

    Args:
        log_p_a: Log-likelihood of the first text, (B,).
        log_p_b: Log-likelihood of the second text, (B,); if mirrored, under the mixture in which it is the first text.
        targets_a: Token ids of the first texts, (B, T), padded with IGNORED.
        targets_b: Token ids of the second texts, (B, T), padded with IGNORED.
        alpha: Ratios drawn by `draw_alpha` with the same `mirrored`, (B,).
        norms: Norms of the encoder states.
        mirrored: Use the mirrored form of Eq. 5.
        norm_penalty: Weight λ of the penalty.

    Returns:
        The loss, with its parts.

    Example:
        >>> log_p, targets = torch.tensor([-2.0]), torch.tensor([[5, 2]])
        >>> norms = StateNorms.of(*[torch.zeros(1, 2, 4), torch.ones(1, 2)] * 2)
        >>> alpha = torch.tensor([0.5])
        >>> linda_loss(log_p, log_p, targets, targets, alpha, norms, mirrored=False, norm_penalty=0.001).loss
        tensor(2.)
    """
    share_a, share_b = target_shares(alpha, mirrored=mirrored)
    per_pair = -(share_a * log_p_a + share_b * log_p_b)  # Eq. 5
    tokens = share_a * (targets_a != IGNORED).sum(1) + share_b * (targets_b != IGNORED).sum(1)
    penalty = norms.penalty(norm_penalty)
    return LindaOutput(
        loss=per_pair.mean() + penalty,
        reconstruction=per_pair.mean(),
        penalty=penalty,
        log_p_a=log_p_a,
        log_p_b=log_p_b,
        loss_per_token=per_pair.detach().sum() / tokens.sum(),
        state_norm=norms.mean,
    )


def choice_loss(log_p: Tensor, targets: Tensor, row: Tensor, weight: Tensor) -> Tensor:
    """Return the cross-entropy of the choice among candidates, averaged over rows.

    Args:
        log_p: Log-likelihood of each target without a source text, (R,).
        targets: Token ids, (R, T), padded with IGNORED.
        row: Row that each target is a candidate for, 0, 1 …, (R,).
        weight: Weight of each target, (R,); the weights of a row sum to 1.
    """
    per_token = log_p / (targets != IGNORED).sum(1) / CHOICE_TEMPERATURE
    rows = int(row.max()) + 1
    table = per_token.new_full((rows, len(row)), -torch.inf)
    table[row, torch.arange(len(row), device=row.device)] = per_token
    return -(weight * (per_token - table.logsumexp(1)[row])).sum() / rows
