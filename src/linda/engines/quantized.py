"""8-bit quantization for the linear layers of the int8 engine (`linear.py`).

A matrix W (out × in) is quantized to integers from −127 to 127 with one scale per output; a row x of activations
likewise, with its own scale, computed at run time:

    W ≈ diag(s)·Q,  s = max|Wᵢ| / 127;      x ≈ r·q,  r = max|x| / 127;      W·x + b ≈ r·(s ∘ (Q·q)) + b.

Q·q is summed exactly. Because every row has its own scale, the result of a row does not depend on the other rows. If
the weights come from an 8-bit file (`linda.model.weights`), Q is identical to the stored integers.

After an activation function, all values are above a floor f, and most are near it. Then the whole range of 8 bits is
used, x ≈ r·q + f with r = (max x − f) / 255, which halves the error; f·(s ∘ Q·1) is added to the bias.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

_LARGEST = 127
_SMALLEST = 1e-30  # lower bound of the maximum of a row, so that a row of zeros does not divide by 0

# Added to a 32-bit float between −2²² and 2²², it leaves no bits for a fraction: the sum is rounded, and its last byte
# is that of the rounded number. So one pass over the rows scales, rounds and converts.
_ROUNDING = 1.5 * 2**23


class Rows(NamedTuple):
    """Activations, each row with its own scale."""

    numbers: Tensor  # (R, k), uint8: the kernel expects 0 to 255
    scales: Tensor  # (R, 1)
    zero: int  # zero point: the number that represents 0, or the floor


def quantize(rows: Tensor, spare: bool = False) -> Rows:
    """Quantize rows (R, k). With `spare`, the input may be overwritten."""
    largest = torch.maximum(rows.amax(dim=1, keepdim=True), rows.amin(dim=1, keepdim=True).neg_())
    scales = largest.mul_(1 / _LARGEST).clamp_min_(_SMALLEST)
    return Rows(_rounded(rows, scales, 128, out=rows if spare else None), scales, 128)


def quantize_above(floor: float, rows: Tensor) -> Rows:
    """Quantize rows (R, k) whose values are at least `floor`. The input is overwritten."""
    scales = rows.sub_(floor).amax(dim=1, keepdim=True).mul_(1 / 255).clamp_min_(_SMALLEST)
    return Rows(_rounded(rows, scales, 0, out=rows), scales, 0)


def _rounded(rows: Tensor, scales: Tensor, zero: int, out: Tensor | None) -> Tensor:
    rounding = rows.new_full((rows.shape[1],), _ROUNDING + zero)
    return torch.addcmul(rounding, rows, scales.reciprocal(), out=out).view(torch.int32).to(torch.uint8)


class Matrix(NamedTuple):
    """A matrix whose rows are the outputs of a linear layer, or token embeddings."""

    numbers: Tensor  # (out, in), int8
    scales: Tensor  # (out,)

    @classmethod
    def of(cls, weight: Tensor, largest: int = _LARGEST) -> Matrix:
        """Quantize a weight (out, in) to integers from −largest to largest."""
        weight = weight.detach().float()
        scales = weight.abs().amax(dim=1).div_(largest).clamp_min_(_SMALLEST)
        return cls((weight / scales[:, None]).round_().to(torch.int8), scales)

    def select(self, rows: Tensor) -> Matrix:
        return Matrix(self.numbers[rows], self.scales[rows])

    def row_sums(self) -> Tensor:
        return self.numbers.sum(dim=1) * self.scales
