"""Where the tokens of a batch stand in a padded tensor.

Linear layers and normalization compute one row (d,) per token and need no padding. Attention needs the tokens of every
sequence in one tensor (B, q, …), padded to the longest. A layout converts between the two.
"""

from __future__ import annotations

from torch import Tensor


class Layout:
    """N tokens in a tensor (B, q)."""

    def __init__(self, rows: int, width: int, places: Tensor | None = None) -> None:
        """Create a layout; places (N,): those of the B·q places that have a token, or None if all have one."""
        self._rows, self._width, self._places = rows, width, places

    @classmethod
    def of(cls, real: Tensor) -> Layout:
        """Return the layout of the places (B, q) that are true."""
        rows, width = real.shape
        return cls(rows, width, real.flatten().nonzero()[:, 0])

    def spread(self, tokens: Tensor) -> Tensor:
        """Map tokens (N, d) to (B, q, d), with zeros for padding."""
        if self._places is not None:
            padded = tokens.new_zeros(self._rows * self._width, tokens.shape[1])
            tokens = padded.index_copy_(0, self._places, tokens)
        return tokens.view(self._rows, self._width, -1)

    def gathered(self, padded: Tensor) -> Tensor:
        """Map (B·q, d) to tokens (N, d)."""
        return padded if self._places is None else padded[self._places]

    def repeated(self, values: Tensor) -> Tensor:
        """Give every token the value of its part of the batch: values (C, d), where C divides B, to (N, d)."""
        each = self._rows * self._width // len(values)
        return values.repeat_interleave(each, dim=0) if self._places is None else values[self._places // each]
