"""Attention of the int8 network, and the additive bias that masks and weights positions.

Shapes: B rows, H heads of size k, q queries per row, n positions that are attended to.
"""

from __future__ import annotations

import torch
from torch import Tensor


def attention_bias(mask: Tensor, prior: Tensor | None = None) -> Tensor:
    """Return the bias added to the attention scores, (B, n): −∞ where the mask (B, n) is 0, else the prior.

    The prior (B, n) is a log-probability per position, such as log α on one text and log(1 − α) on the other.
    """
    bias = torch.zeros(mask.shape, device=mask.device) if prior is None else prior.to(torch.float32, copy=True)
    return bias.masked_fill_(mask == 0, -torch.inf)


def attend(queries: Tensor, keys: Tensor, values: Tensor, bias: Tensor) -> Tensor:
    """Compute softmax(q·K + bias)·V for queries that are already scaled, (B·q, H·k).

    The matrices are small: for them this is faster than PyTorch's fused attention.

    queries (B, q, H, k), keys (B, H, k, n), values (B, H, n, k), bias (B, 1, q or 1, n).
    """
    rows, count, heads, size = queries.shape
    queries = queries.transpose(1, 2).reshape(rows * heads, count, size)
    scores = torch.bmm(queries, keys.flatten(0, 1)).view(rows, heads, count, -1)  # (B, H, q, n)
    weights = scores.add_(bias).softmax(dim=-1)
    mixed = torch.bmm(weights.flatten(0, 1), values.flatten(0, 1)).view(rows, heads, count, size)
    return mixed.transpose(1, 2).reshape(rows * count, heads * size)
