"""The losses for soft labels, for use in any training loop."""

from typing import Any

import torch
from torch import Tensor


def soft_cross_entropy(logits: Tensor, target: Any, weight: Any = None) -> Tensor:
    """Cross-entropy against distributions: −Σᵢ yᵢ log softmax(logits)ᵢ, mean over rows.

    The Trainer of `transformers` treats float vectors as multi-label targets instead and scores every class separately.

    Args:
        logits: (B, C)
        target: (B, C) distributions, as in the column `label_probs`, or (B,) class numbers.
        weight: (B,) row weights; the result is then the weighted mean.

    Returns:
        A scalar.

    Example:
        >>> soft_cross_entropy(torch.zeros(1, 2), [[0.7, 0.3]])
        tensor(0.6931)
    """
    target = torch.as_tensor(target, device=logits.device)
    if target.shape == logits.shape[:1]:
        target = torch.nn.functional.one_hot(target.long(), logits.shape[-1])
    if target.shape != logits.shape:
        raise ValueError(
            f"target has shape {tuple(target.shape)}; it must be {tuple(logits.shape)}, like logits, or (B,)"
        )
    return _mean_over_rows(-(target.to(logits.dtype) * logits.log_softmax(dim=-1)).sum(dim=-1), weight)


def soft_binary_cross_entropy(logits: Tensor, target: Any, weight: Any = None) -> Tensor:
    """Binary cross-entropy against vectors with one value from 0 to 1 per class, for rows that have several labels.

    −yᵢ log σ(zᵢ) − (1−yᵢ) log(1−σ(zᵢ)), mean over the classes i, then over rows. The values of a row need not sum to 1.

    Args:
        logits: (B, C)
        target: (B, C) values from 0 to 1, as in the column `label_probs` of `--multi-label`.
        weight: (B,) row weights; the result is then the weighted mean.

    Returns:
        A scalar.

    Example:
        >>> soft_binary_cross_entropy(torch.zeros(1, 3), [[1.0, 0.7, 0.0]])
        tensor(0.6931)
    """
    target = torch.as_tensor(target, device=logits.device)
    if target.shape != logits.shape:
        raise ValueError(f"target has shape {tuple(target.shape)}; it must be {tuple(logits.shape)}, like logits")
    losses = torch.nn.functional.binary_cross_entropy_with_logits(logits, target.to(logits.dtype), reduction="none")
    return _mean_over_rows(losses.mean(dim=-1), weight)


def _mean_over_rows(losses: Tensor, weight: Any) -> Tensor:
    """Average the losses (B,), with weights (B,) if there are any."""
    if weight is None:
        return losses.mean()
    weight = torch.as_tensor(weight, dtype=losses.dtype, device=losses.device)
    return (weight * losses).sum() / weight.sum()
