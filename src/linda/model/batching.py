"""Sequences of different length: grouped by length, and padded into one tensor."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from linda.errors import LindaError

# PyTorch's softmax is six times as slow on rows that do not fill a vector register, and rounds them in another way:
# were short texts not made so wide, the last bits of a row would tell how long the others of its batch are.
NARROWEST = 16

MOST_TOKENS = 10**8


def batches(
    lengths: Sequence[int], batch_tokens: int, paths: int = 1, *, narrowest: int = NARROWEST, least_filled: float = 0.0
) -> list[list[int]]:
    """Rows grouped by length, longest first, so that rows × paths × longest length stays within batch_tokens.

    A row that alone is over the budget makes a batch of its own. The longest come first: memory that is too small shows
    at once.

    Args:
        lengths: of the rows, in tokens.
        batch_tokens: the most tokens in a batch, padding included.
        paths: texts written side by side for one row (`Decoding.paths`).
        narrowest: the least width that rows are padded to.
        least_filled: a row shorter than this share of the longest one opens the next batch.

    Returns:
        The numbers of the rows in each batch.

    Example:
        >>> batches([3, 20, 18], batch_tokens=40)
        [[1, 2], [0]]
    """
    if not 1 <= batch_tokens <= MOST_TOKENS:
        raise LindaError(f"batch_tokens={batch_tokens} does not work: give a whole number from 1 to {MOST_TOKENS:,}")
    groups: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        longest = lengths[groups[-1][0]] if groups else 0
        room = batch_tokens // (max(narrowest, longest) * paths) if groups else 0
        if groups and len(groups[-1]) < room and lengths[row] >= least_filled * longest:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def padded(sequences: Sequence[Tensor], value: float = 0.0, *, narrowest: int = NARROWEST) -> tuple[Tensor, Tensor]:
    """Sequences (L, …) as one tensor (B, max L, …), and the mask (B, max L) of what is real.

    max L is at least `narrowest`.
    """
    lengths = torch.tensor([len(sequence) for sequence in sequences], device=sequences[0].device)
    together = pad_sequence(list(sequences), batch_first=True, padding_value=value)
    short = max(0, narrowest - together.shape[1])
    together = F.pad(together, (0, 0) * (together.dim() - 2) + (0, short), value=value)
    mask = torch.arange(together.shape[1], device=together.device) < lengths[:, None]
    return together, mask.long()
