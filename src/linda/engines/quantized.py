"""Numbers in 8 bits: what the linear layers of the int8 engine (`linear.py`) compute with.

A matrix W (out × in) becomes integers from −127 to 127 with one scale per output, a row x of activations the same
with one scale of its own, found when it comes:

    W ≈ diag(s)·Q,  s = max|Wᵢ| / 127;      x ≈ r·q,  r = max|x| / 127;      W·x + b ≈ r·(s ∘ (Q·q)) + b.

Q·q is summed without error. Because every row has its own scale, what a row becomes does not depend
on the rows beside it. Where the weights come from a file of 8 bits (`linda.model.weights`), Q is what the file holds.

After an activation function no number lies below a floor f, and most lie near it. There all 256 numbers are used,
x ≈ r·q + f with r = (max x − f) / 255, which halves the error; f·(s ∘ Q·1) joins the bias.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

_LARGEST = 127
_SMALLEST = 1e-30  # the largest number of a row of zeros is taken for this: nothing is divided by 0

# Added to a number between −2²² and 2²², it leaves no bits behind the point: the sum is rounded, and its last byte is
# that of the rounded number. One pass over the rows instead of three.
_ROUNDING = 1.5 * 2**23


class Rows(NamedTuple):
    """Activations, each row with its own scale."""

    numbers: Tensor  # (R, k), uint8: the kernel wants whole numbers from 0 to 255
    scales: Tensor  # (R, 1)
    zero: int  # the whole number that stands for 0, or for the floor


def quantize(rows: Tensor, spare: bool = False) -> Rows:
    """rows (R, k) in 8 bits. `spare`: they are used no more, so that their memory may be written over."""
    largest = torch.maximum(rows.amax(dim=1, keepdim=True), rows.amin(dim=1, keepdim=True).neg_())
    scales = largest.mul_(1 / _LARGEST).clamp_min_(_SMALLEST)
    return Rows(_rounded(rows, scales, 128, out=rows if spare else None), scales, 128)


def quantize_above(floor: float, rows: Tensor) -> Rows:
    """rows (R, k), none of whose numbers lies below the floor; they are written over."""
    scales = rows.sub_(floor).amax(dim=1, keepdim=True).mul_(1 / 255).clamp_min_(_SMALLEST)
    return Rows(_rounded(rows, scales, 0, out=rows), scales, 0)


def _rounded(rows: Tensor, scales: Tensor, zero: int, out: Tensor | None) -> Tensor:
    rounding = rows.new_full((rows.shape[1],), _ROUNDING + zero)
    return torch.addcmul(rounding, rows, scales.reciprocal(), out=out).view(torch.int32).to(torch.uint8)


class Matrix(NamedTuple):
    """A matrix whose rows are the outputs of a linear layer, or the embeddings of pieces."""

    numbers: Tensor  # (out, in), int8
    scales: Tensor  # (out,)

    @classmethod
    def of(cls, weight: Tensor, largest: int = _LARGEST) -> Matrix:
        """weight (out, in) in integers from −largest to largest."""
        weight = weight.detach().float()
        scales = weight.abs().amax(dim=1).div_(largest).clamp_min_(_SMALLEST)
        return cls((weight / scales[:, None]).round_().to(torch.int8), scales)

    def select(self, rows: Tensor) -> Matrix:
        return Matrix(self.numbers[rows], self.scales[rows])

    def row_sums(self) -> Tensor:
        return self.numbers.sum(dim=1) * self.scales
