"""Conversion between a batch of tokens without padding and a padded tensor.

Linear layers and normalization compute one row (d,) per token and need no padding. Attention needs the sequences in one
tensor (B, q, …), padded to the longest.
"""

from __future__ import annotations

from torch import Tensor


class Layout:
    """N tokens in a tensor (B, q)."""

    def __init__(self, rows: int, width: int, indices: Tensor | None = None) -> None:
        """Create a layout; indices (N,): those of the B·q positions that have a token, or None if all have one."""
        self._rows, self._width, self._indices = rows, width, indices

    @classmethod
    def of(cls, real: Tensor) -> Layout:
        """Return the layout of a mask (B, q) that is true for tokens."""
        rows, width = real.shape
        return cls(rows, width, real.flatten().nonzero()[:, 0])

    def spread(self, tokens: Tensor) -> Tensor:
        """Map tokens (N, d) to (B, q, d), with zeros for padding."""
        if self._indices is not None:
            padded = tokens.new_zeros(self._rows * self._width, tokens.shape[1])
            tokens = padded.index_copy_(0, self._indices, tokens)
        return tokens.view(self._rows, self._width, -1)

    def gathered(self, padded: Tensor) -> Tensor:
        """Map (B·q, d) to tokens (N, d)."""
        return padded if self._indices is None else padded[self._indices]

    def repeated(self, values: Tensor) -> Tensor:
        """Repeat values (C, d) of C equal parts of the batch for every token of the part, (N, d)."""
        each = self._rows * self._width // len(values)
        return values.repeat_interleave(each, dim=0) if self._indices is None else values[self._indices // each]
