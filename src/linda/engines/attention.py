"""Attention of the int8 network, and the additive bias that masks and weights positions.

Shapes: B rows, H heads of size k, q queries per row, n positions that are attended to.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from linda.model.batching import MIN_WIDTH


def attention_bias(mask: Tensor, prior: Tensor | None = None) -> Tensor:
    """Return the bias added to the attention scores, (B, n): −∞ where the mask (B, n) is 0, else the prior.

    The prior (B, n) is added to the scores, such as log α for positions of one text and log(1 − α) for the other.
    """
    bias = torch.zeros(mask.shape, device=mask.device) if prior is None else prior.to(torch.float32, copy=True)
    return bias.masked_fill_(mask == 0, -torch.inf)


def attend(queries: Tensor, keys: Tensor, values: Tensor, bias: Tensor) -> Tensor:
    """Compute softmax(q·K + bias)·V for queries that are already scaled, (B·q, H·k).

    The matrices are small, and for small matrices this is faster than PyTorch's fused attention.

    Args:
        queries: Scaled queries, (B, q, H, k).
        keys: Keys, (B, H, k, n).
        values: Values, (B, H, n, k).
        bias: Added to the scores, (B, 1, q or 1, n).
    """
    rows, count, heads, size = queries.shape
    queries = queries.transpose(1, 2).reshape(rows * heads, count, size)
    scores = torch.bmm(queries, keys.flatten(0, 1)).view(rows, heads, count, -1)  # (B, H, q, n)
    weights = scores.add_(bias).softmax(dim=-1)
    mixed = torch.bmm(weights.flatten(0, 1), values.flatten(0, 1)).view(rows, heads, count, size)
    return mixed.transpose(1, 2).reshape(rows * count, heads * size)


class Prefix(NamedTuple):
    """Keys and values of the tokens before the branches."""

    keys: Tensor  # (B, H, n, k)
    values: Tensor  # (B, H, n, k)
    bias: Tensor  # (B, 1, c, 1, n): added to the scores of these tokens, for each of c branches


def attend_branches(queries: Tensor, keys: Tensor, values: Tensor, prefix: Prefix) -> Tensor:
    """Compute causal attention for c branches of t tokens, each to its prefix and to itself, (B·c·t, H·k).

    Branches do not attend to each other, so scores are computed only for the prefix and the t tokens of the branch.

    Args:
        queries: Scaled queries, (B, c, t, H, k).
        keys: Keys, (B, c, t, H, k).
        values: Values, (B, c, t, H, k).
        prefix: The tokens before the branches.
    """
    rows, count, length, heads, size = queries.shape
    queries, keys, values = (tensor.permute(0, 3, 1, 2, 4).contiguous() for tensor in (queries, keys, values))
    before = prefix.keys.shape[2]
    # At least MIN_WIDTH columns for the branch: the rounding of softmax depends on the width.
    scores = queries.new_full((rows, heads, count, length, before + max(length, MIN_WIDTH)), -torch.inf)
    of_prefix = torch.bmm(queries.view(rows * heads, -1, size), prefix.keys.flatten(0, 1).transpose(1, 2))
    torch.add(of_prefix.view(rows, heads, count, length, -1), prefix.bias, out=scores[..., :before])
    own = torch.bmm(queries.view(-1, length, size), keys.view(-1, length, size).transpose(1, 2))
    later = torch.ones(length, length, dtype=torch.bool).triu_(1)
    scores[..., before : before + length] = own.masked_fill_(later, -torch.inf).view(rows, heads, count, length, -1)
    weights = scores.softmax(dim=-1).view(rows * heads, count * length, -1)
    mixed = torch.bmm(weights[..., :before], prefix.values.flatten(0, 1)).view(-1, length, size)
    own_weights = weights[..., before : before + length].reshape(-1, length, length)
    mixed = mixed.baddbmm_(own_weights, values.view(-1, length, size)).view(rows, heads, count * length, size)
    return mixed.transpose(1, 2).reshape(rows * count * length, heads * size)
