"""The loss for soft labels, for anyone's training loop."""

from typing import Any

import torch
from torch import Tensor


def soft_cross_entropy(logits: Tensor, target: Any, weight: Any = None) -> Tensor:
    """−Σᵢ yᵢ log softmax(logits)ᵢ, the mean over rows.

    logits: (B, C) scores. target: (B, C) distributions, as in the column `label_probs`, or (B,) class numbers.
    weight: (B,) how much each row counts; the mean is then a weighted one.

    `transformers` takes float vectors for multi-label targets and scores every class by itself; this does not.
    """
    target = torch.as_tensor(target, device=logits.device)
    if target.shape == logits.shape[:1]:
        target = torch.nn.functional.one_hot(target.long(), logits.shape[-1])
    if target.shape != logits.shape:
        raise ValueError(
            f"target has shape {tuple(target.shape)}; it must be {tuple(logits.shape)}, like logits, or (B,)"
        )
    losses = -(target.to(logits.dtype) * logits.log_softmax(dim=-1)).sum(dim=-1)  # (B,)
    if weight is None:
        return losses.mean()
    weight = torch.as_tensor(weight, dtype=losses.dtype, device=losses.device)
    return (weight * losses).sum() / weight.sum()
