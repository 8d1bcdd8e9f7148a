"""Packs short texts end to end, so that an encoder computes no padding and reads its weights only once.

A minibatch of eight questions has about a hundred tokens. Padding adds half as many, and in groups of similar length
each group reads all weights, forward and backward. Packed end to end, with positions that restart at every text and
attention limited to the text, the states are the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# Attention costs the square of the line length: several short lines are cheaper than one long line.
_LINE = 64

_PADDING = -1


@dataclass(frozen=True)
class Packed:
    """Texts in lines of equal length. All tensors are (lines, length)."""

    values: dict[str, Tensor]  # input_ids and other inputs of the encoder
    text: Tensor  # which text a token belongs to, −1 for padding
    position: Tensor  # position of a token in its text, from 0

    def attention_bias(self) -> Tensor:
        """(lines, 1, length, length): 0 within a text, the lowest number between texts."""
        apart = self.text[:, :, None] != self.text[:, None, :]
        lowest = torch.finfo(torch.float32).min
        return torch.zeros(apart.shape, device=apart.device).masked_fill_(apart, lowest)[:, None]

    def mean_of_texts(self, states: Tensor) -> Tensor:
        """Average states (lines, length, d) over the tokens of each text, (texts, d)."""
        text = self.text.to(states.device)
        real = text != _PADDING
        owner = text[real]  # (tokens,)
        counts = owner.bincount()
        sums = states.new_zeros(len(counts), states.shape[-1]).index_add(0, owner, states[real])
        return sums / counts[:, None]


def pack(texts: Sequence[dict[str, Tensor]], padding: int) -> Packed:
    """Pack texts, each a dict of token sequences (L,), into few lines; `input_ids` are padded with `padding`."""
    lengths = [len(text["input_ids"]) for text in texts]
    lines = _lines(lengths)
    shape = (len(lines), max(sum(lengths[number] for number in line) for line in lines))
    values = {name: torch.full(shape, padding if name == "input_ids" else 0) for name in texts[0]}
    text, position = torch.full(shape, _PADDING), torch.zeros(shape, dtype=torch.long)
    for line, numbers in enumerate(lines):
        start = 0
        for number in numbers:
            place = (line, slice(start, start + lengths[number]))
            for name, sequence in texts[number].items():
                values[name][place] = sequence
            text[place] = number
            position[place] = torch.arange(lengths[number])
            start += lengths[number]
    return Packed(values, text, position)


def _lines(lengths: Sequence[int]) -> list[list[int]]:
    """Assign texts to lines (first-fit decreasing)."""
    capacity = max(_LINE, *lengths)
    lines: list[list[int]] = []
    left: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        line = next((line for line, free in enumerate(left) if free >= lengths[number]), None)
        if line is None:
            line = len(lines)
            lines.append([])
            left.append(capacity)
        lines[line].append(number)
        left[line] -= lengths[number]
    return lines
