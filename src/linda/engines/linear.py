"""Linear layers over 8-bit integers, on any CPU.

A layer is a scaled integer product Q·q (`quantized.py`), computed in one of three ways:

- `IntegerProduct`: the integer kernel of oneDNN, which is part of PyTorch. It needs an x86 processor with 8-bit dot
  products (VNNI, AMX). On others, oneDNN adds pairs of products in 16 bits, which may saturate and give wrong results.
- `SevenBitProduct`: the same kernel with weights from −64 to 64, so that pairs of products fit 16 bits. For x86
  processors without VNNI (AVX2): about twice as fast as 32-bit floats, and slightly less exact than 8 bits.
- `FloatProduct`: a product of 32-bit floats whose values are the 8-bit integers, on any processor. Floats represent
  integers up to 2²⁴ exactly, and the sums for real weights and activations are far smaller. So the result is identical
  to that of `IntegerProduct`, in any order of summation.

All three sum integers exactly, so the result of a row does not depend on the other rows of its batch. `find_product`
selects the fastest that is exact on this machine.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from linda.engines.quantized import Matrix, Rows

_ONE = torch.tensor(1.0)


class Product(Protocol):
    """s ∘ (Q·q) for rows q of 8-bit integers."""

    largest_weight: int  # the entries of Q lie between this and its negative

    def __init__(self, matrix: Matrix) -> None: ...

    def __call__(self, rows: Rows) -> Tensor:
        """Multiply (R, in) → (R, out) in 32-bit floats, without applying the scales of the rows."""
        ...


class IntegerProduct:
    """Products with oneDNN's integer kernel."""

    features: tuple[str, ...] = ("avx512_vnni", "avx_vnni", "amx_int8")  # CPU features, at least one of which is needed
    largest_weight = 127

    def __init__(self, matrix: Matrix) -> None:
        self._packed = torch.ops.onednn.qlinear_prepack(matrix.numbers, None)
        self._scales = matrix.scales
        self._zeros = torch.zeros(len(matrix.scales), dtype=torch.int32)

    def __call__(self, rows: Rows) -> Tensor:
        count = len(rows.numbers)
        products: Tensor = torch.ops.onednn.qlinear_pointwise.tensor(
            pad(rows.numbers, (0, 0, 0, _few_sizes(count) - count)),
            _ONE,
            torch.tensor(rows.zero, dtype=torch.int32),
            self._packed,
            self._scales,
            self._zeros,
            None,
            1.0,
            0,
            torch.float32,
            "none",
            [],
            "",
        )
        return products[:count]

    @classmethod
    def is_exact(cls) -> bool:
        """Whether the oneDNN kernel of this machine is fast and does not saturate.

        The CPU features alone are not sufficient, because `ONEDNN_MAX_CPU_ISA` restricts oneDNN. So this multiplies the
        largest numbers. Outside x86, oneDNN may use a reference kernel, which is exact but slow.
        """
        if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.onednn, "qlinear_pointwise"):
            return False
        capabilities = torch.cpu.get_capabilities()
        if not any(capabilities.get(name) for name in cls.features):
            return False
        size = 64
        rows = Rows(torch.full((1, size), 255, dtype=torch.uint8), torch.ones(1, 1), 0)
        matrix = Matrix(torch.full((1, size), cls.largest_weight, dtype=torch.int8), torch.ones(1))
        return cls(matrix)(rows).item() == 255 * cls.largest_weight * size


class SevenBitProduct(IntegerProduct):
    """The same kernel with 7-bit weights."""

    features = ("avx2",)
    largest_weight = 64  # two products of 255 · 64 are still below 2¹⁵


class FloatProduct:
    """Products with 32-bit floats, on any processor."""

    largest_weight = 127

    def __init__(self, matrix: Matrix) -> None:
        self._numbers = matrix.numbers.float().t()
        self._scales = matrix.scales

    def __call__(self, rows: Rows) -> Tensor:
        return torch.mm(rows.numbers.float().sub_(rows.zero), self._numbers).mul_(self._scales)


def find_product() -> type[Product]:
    """Return the fastest product that is exact on this machine."""
    kernels: tuple[type[IntegerProduct], ...] = (IntegerProduct, SevenBitProduct)
    return next((kernel for kernel in kernels if kernel.is_exact()), FloatProduct)


def weight_bits() -> int:
    """Return the number of bits per weight on this machine, 8 or 7; texts may differ between the two."""
    return 8 if find_product().largest_weight == FloatProduct.largest_weight else 7


def _few_sizes(count: int) -> int:
    """Round `count` up by at most an eighth, to one of eight values between any power of two and the next.

    oneDNN compiles a kernel for every number of rows (0.7 ms, half a megabyte) and caches a thousand of them. In a beam
    search, rows finish one by one, so without rounding it would compile and evict kernels all the time.
    """
    step = 1 << max(0, count.bit_length() - 4)
    return -(-count // step) * step


class Linear:
    """W·x + b for 8-bit rows x; the result has 32 bits."""

    def __init__(self, matrix: Matrix, bias: Tensor, product: type[Product]) -> None:
        self._product = product(matrix)
        self._bias = bias

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor, product: type[Product], floor: float = 0.0) -> Linear:
        """Quantize a layer of 32-bit weights to 8 bits.

        Args:
            weight: (out, in).
            bias: (out,).
            product: Implementation of the integer product.
            floor: Floor of the inputs, if they are quantized with `quantize_above`.

        Example:
            Linear.of(torch.randn(3, 5), torch.zeros(3), find_product())(quantize(torch.randn(2, 5)))  # (2, 3)
        """
        matrix = Matrix.of(weight, product.largest_weight)
        return cls(matrix, bias.detach().float() + floor * matrix.row_sums(), product)

    @property
    def outputs(self) -> int:
        return len(self._bias)

    def __call__(self, rows: Rows, out: Tensor | None = None) -> Tensor:
        """Compute the layer, (R, in) → (R, out)."""
        products = self._product(rows)
        return torch.addcmul(self._bias, products, rows.scales, out=products if out is None else out)
