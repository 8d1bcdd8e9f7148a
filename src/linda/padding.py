"""Sequences of different length in one tensor."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


def padded(sequences: Sequence[Tensor], value: float = 0.0) -> tuple[Tensor, Tensor]:
    """Sequences (L, …) as one tensor (B, max L, …), and the mask (B, max L) of what is real."""
    lengths = torch.tensor([len(sequence) for sequence in sequences], device=sequences[0].device)
    together = pad_sequence(list(sequences), batch_first=True, padding_value=value)
    mask = torch.arange(together.shape[1], device=together.device) < lengths[:, None]
    return together, mask.long()
