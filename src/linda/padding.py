"""Sequences of different length in one tensor."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

# PyTorch's softmax is six times as slow on rows that do not fill a vector register, and rounds them in another way:
# were short texts not made so wide, the last bits of a row would tell how long the others of its batch are.
NARROWEST = 16


def padded(sequences: Sequence[Tensor], value: float = 0.0) -> tuple[Tensor, Tensor]:
    """Sequences (L, …) as one tensor (B, max L, …), and the mask (B, max L) of what is real; max L is 16 or more."""
    lengths = torch.tensor([len(sequence) for sequence in sequences], device=sequences[0].device)
    together = pad_sequence(list(sequences), batch_first=True, padding_value=value)
    short = max(0, NARROWEST - together.shape[1])
    together = F.pad(together, (0, 0) * (together.dim() - 2) + (0, short), value=value)
    mask = torch.arange(together.shape[1], device=together.device) < lengths[:, None]
    return together, mask.long()
