"""Forced decoding: token sequences that are given are read in parallel, not written step by step.

A *reading* is of p sequences per row. Afterwards *branches* can be read: other tokens after a prefix of one of the
sequences, of which nothing is computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from linda.engines.attention import attention_bias
from linda.engines.bart_family import Network
from linda.engines.decoding import Frame
from linda.engines.quantized import quantize
from linda.engines.short_list import Output
from linda.model.batching import NARROWEST

_POSITIONS_AT_ONCE = 1024  # rows of logits: 32 MB


class Branch(NamedTuple):
    """Other tokens after the first `length` tokens of a sequence of the reading."""

    sequence: int
    length: int
    tokens: Sequence[int]


class Reading(Protocol):
    """Sequences that were read, without start and end markers."""

    log_p: list[list[Tensor]]
    """Per row and sequence of T tokens: log p of each wanted token after 0, 1 … T tokens, (T + 1, wanted)."""

    def read_on(self, branches: Sequence[Sequence[Branch]]) -> list[list[Tensor]]:
        """Per row and branch of T tokens: log p of each wanted token after 1 … T of them, (T, wanted)."""
        ...


class Prompt:
    """The tokens before every sequence."""

    def __init__(self, frame: Frame) -> None:
        self.tokens = [frame.start] if frame.forced_first is None else [frame.start, frame.forced_first]
        self._pad = frame.pad

    def __len__(self) -> int:
        return len(self.tokens)

    def inputs(self, sequences: Sequence[Sequence[Sequence[int]]]) -> Tensor:
        """What the decoder reads, (B, p, T), padded at the end."""
        return _stacked([[[*self.tokens, *sequence] for sequence in row] for row in sequences], self._pad)

    def after(self, found: Sequence[Tensor], sequences: Sequence[Sequence[Sequence[int]]]) -> list[list[Tensor]]:
        """Rows (p, T, wanted) become one tensor per sequence, without the positions before it and after it."""
        first = len(self.tokens) - 1
        return [
            [paths[number, first : first + 1 + len(sequence)] for number, sequence in enumerate(row)]
            for paths, row in zip(found, sequences, strict=True)
        ]


class Int8Reading:
    """A reading by the 8-bit network."""

    def __init__(
        self,
        network: Network,
        output: Output,
        frame: Frame,
        states: Tensor,
        bias: Tensor,
        sequences: Sequence[Sequence[Sequence[int]]],
        wanted: Sequence[Sequence[int]],
    ) -> None:
        """Reads sequences.

        Args:
            network: the decoder.
            output: the output layer for this batch.
            frame: the markers around a text.
            states: what the decoder attends to, (B, S, d).
            bias: is added to the attention scores of the states, (B, S).
            sequences: p of them per row, or fewer.
            wanted: tokens whose probability is wanted, per row.
        """
        self._network, self._output = network, output
        short = max(0, NARROWEST - states.shape[1])
        states, bias = F.pad(states, (0, 0, 0, short)), F.pad(bias, (0, short), value=-torch.inf)
        self._source = [layer.source_memory(states) for layer in network.layers]
        self._source_bias = bias[:, None, None]
        self._columns = [output.vocabulary.columns(torch.tensor(tokens)) for tokens in wanted]
        self._prompt = Prompt(frame)
        inputs = self._prompt.inputs(sequences)
        self._length = inputs.shape[2]
        # A multiple of what fills a vector register: where a sequence lies must not change how its sums are rounded.
        inputs = F.pad(inputs, (0, -self._length % NARROWEST))
        rows, sequence_count, self._width = inputs.shape
        # Each sequence sees itself and what comes before: blocks of triangles.
        seen = torch.block_diag(*[torch.ones(self._width, self._width).tril()] * sequence_count)
        embedded = network.embedding(inputs.flatten(0, 1), 0).flatten(0, 1)  # (B·p·T, d)
        self._memory: list[tuple[Tensor, Tensor]] = []  # each layer's keys and values, (B, p·T, H, k)
        states = self._through(embedded, attention_bias(seen)[None, None], remembers=True)
        states = states.view(rows, sequence_count, self._width, -1)[:, :, : self._length]  # padding is not scored
        self.log_p = self._prompt.after(self._log_p(states), sequences)

    def read_on(self, branches: Sequence[Sequence[Branch]]) -> list[list[Tensor]]:
        inputs = _stacked([[branch.tokens for branch in row] for row in branches], 0)  # (B, c, t)
        rows, count, length = inputs.shape
        starts = torch.zeros(rows, count, dtype=torch.long)  # the position of a branch's first token
        paths = torch.zeros(rows, count, dtype=torch.long)
        for number, row in enumerate(branches):
            for place, branch in enumerate(row):
                starts[number, place], paths[number, place] = len(self._prompt) + branch.length, branch.sequence
        positions = starts[:, :, None] + torch.arange(length)  # (B, c, t)
        embedded = self._network.embedding.at(inputs, positions.clamp_max(self._network.embedding.last)).flatten(0, 2)
        # A branch sees the prefix of its sequence, and its own tokens so far.
        places = torch.arange(self._memory[0][0].shape[1])  # of the sequences: path · width + position
        prefix = (places // self._width == paths[:, :, None]) & (places % self._width < starts[:, :, None])
        own = torch.block_diag(*[torch.ones(length, length).tril()] * count).bool()
        seen = torch.cat(
            [prefix.repeat_interleave(length, dim=1), own.expand(rows, -1, -1)], dim=2
        )  # (B, c·t, p·T + c·t)
        states = self._through(embedded, attention_bias(seen)[:, None], remembers=False)
        found = self._log_p(states.view(rows, count, length, -1))
        return [
            [log_p[number, : len(branch.tokens)] for number, branch in enumerate(row)]
            for log_p, row in zip(found, branches, strict=True)
        ]

    def _through(self, states: Tensor, past_bias: Tensor, *, remembers: bool) -> Tensor:
        """The layers, for states (B·q, d) that see by past_bias what was read before and each other."""
        for number, (layer, source) in enumerate(zip(self._network.layers, self._source, strict=True)):

            def remember(keys: Tensor, values: Tensor, number: int = number) -> tuple[Tensor, Tensor]:
                if remembers:
                    self._memory.append((keys, values))
                else:
                    before = self._memory[number]
                    keys, values = torch.cat([before[0], keys], dim=1), torch.cat([before[1], values], dim=1)
                return keys.permute(0, 2, 3, 1), values.transpose(1, 2)

            states = layer(states, remember, past_bias, source, self._source_bias)
        return self._network.norm(states)

    def _log_p(self, states: Tensor) -> list[Tensor]:
        """States (B, p, T, d) become, per row, log p of the tokens wanted: (p, T, wanted)."""
        rows, paths, length, _ = states.shape
        flat = states.flatten(0, 2)
        of_row = torch.arange(rows).repeat_interleave(paths * length)
        longest = max(map(len, self._columns))
        columns = torch.stack([F.pad(found, (0, longest - len(found))) for found in self._columns])  # (B, w)
        parts = [
            self._output.log_p(quantize(part), part_rows, columns[part_rows])
            for part, part_rows in zip(flat.split(_POSITIONS_AT_ONCE), of_row.split(_POSITIONS_AT_ONCE), strict=True)
        ]
        found = torch.cat(parts).view(rows, paths, length, -1)
        return [row[:, :, : len(tokens)] for row, tokens in zip(found, self._columns, strict=True)]


def _stacked(rows: Sequence[Sequence[Sequence[int]]], pad: int) -> Tensor:
    """Rows of sequences as one tensor (B, most sequences, longest)."""
    count, length = max(map(len, rows)), max((len(sequence) for row in rows for sequence in row), default=1)
    stacked = torch.full((len(rows), max(1, count), max(1, length)), pad)
    for number, row in enumerate(rows):
        for place, sequence in enumerate(row):
            stacked[number, place, : len(sequence)] = torch.tensor(sequence)
    return stacked
