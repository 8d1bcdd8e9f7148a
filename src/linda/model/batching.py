"""Batches of sequences of similar length, and padding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from linda.errors import checked_integer

Item = TypeVar("Item")

# PyTorch's softmax is six times slower on rows that do not fill a vector register, and rounds differently there. This
# minimum width also makes the last bits of a row independent of the length of the other rows in its batch.
MIN_WIDTH = 16

MAX_TOKENS = 10**8


def batches(
    lengths: Sequence[int], batch_tokens: int, paths: int = 1, *, min_width: int = MIN_WIDTH, min_fill: float = 0.0
) -> list[list[int]]:
    """Group rows by length, longest first, so that rows × paths × longest length is at most batch_tokens.

    A row that exceeds the limit alone is a batch of its own. The longest rows come first, so that an out-of-memory
    error occurs at once.

    Args:
        lengths: Length of each row in tokens.
        batch_tokens: Maximum number of tokens in a batch, padding included.
        paths: Sequences decoded in parallel for one row (`Decoding.paths`).
        min_width: Minimum width that rows are padded to.
        min_fill: A row shorter than this share of the longest row starts the next batch.

    Returns:
        The row numbers of each batch.

    Example:
        >>> batches([3, 20, 18], batch_tokens=40)
        [[1, 2], [0]]
    """
    checked_integer(batch_tokens, "batch_tokens", 1, MAX_TOKENS)
    groups: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        longest = lengths[groups[-1][0]] if groups else 0
        capacity = batch_tokens // (max(min_width, longest) * paths) if groups else 0
        if groups and len(groups[-1]) < capacity and lengths[row] >= min_fill * longest:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def by_length(rows: Iterable[Item], length: Callable[[Item], Any], size: int) -> list[list[Item]]:
    """Group rows of similar length, shortest first, `size` at a time; the last group may be smaller.

    Args:
        rows: Rows of any type.
        length: Sort key. Rows with equal keys keep their order.
        size: Rows per group.

    Example:
        >>> by_length(["of", "a", "the", "b"], len, 2)
        [['a', 'b'], ['of', 'the']]
    """
    ordered = sorted(rows, key=length)
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]


def padded(sequences: Sequence[Tensor], value: float = 0.0, *, min_width: int = MIN_WIDTH) -> tuple[Tensor, Tensor]:
    """Pad sequences (L, …) to one tensor (B, max L, …), and return it with the mask (B, max L) of real positions.

    max L is at least `min_width`.
    """
    lengths = torch.tensor([len(sequence) for sequence in sequences], device=sequences[0].device)
    batch = pad_sequence(list(sequences), batch_first=True, padding_value=value)
    missing = max(0, min_width - batch.shape[1])
    batch = F.pad(batch, (0, 0) * (batch.dim() - 2) + (0, missing), value=value)
    mask = torch.arange(batch.shape[1], device=batch.device) < lengths[:, None]
    return batch, mask.long()
