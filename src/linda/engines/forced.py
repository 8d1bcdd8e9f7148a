"""Forced decoding: score given token sequences in parallel instead of generating step by step.

A *reading* scores p sequences per row. *Branches* can be scored afterwards: other tokens after a prefix of one of the
sequences. The prefix is not computed again.
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
    """Other tokens after the first `length` tokens of a sequence."""

    sequence: int
    length: int
    tokens: Sequence[int]


class Reading(Protocol):
    """Scored sequences, without start and end markers."""

    log_p: list[list[Tensor]]
    """Per row and sequence of T tokens: log p of each wanted token after 0, 1 … T tokens, (T + 1, wanted)."""

    def read_on(self, branches: Sequence[Sequence[Branch]]) -> list[list[Tensor]]:
        """Per row and branch of T tokens: log p of each wanted token after 1 … T of them, (T, wanted)."""
        ...


class Prompt:
    """The tokens that precede every sequence."""

    def __init__(self, frame: Frame) -> None:
        self.tokens = [frame.start] if frame.forced_first is None else [frame.start, frame.forced_first]
        self._pad = frame.pad

    def __len__(self) -> int:
        return len(self.tokens)

    def inputs(self, sequences: Sequence[Sequence[Sequence[int]]]) -> Tensor:
        """Return the decoder inputs (B, p, T), padded at the end."""
        return _stacked([[[*self.tokens, *sequence] for sequence in row] for row in sequences], self._pad)

    def after(self, found: Sequence[Tensor], sequences: Sequence[Sequence[Sequence[int]]]) -> list[list[Tensor]]:
        """Split rows (p, T, wanted) into one tensor per sequence, without prompt and padding."""
        first = len(self.tokens) - 1
        return [
            [paths[number, first : first + 1 + len(sequence)] for number, sequence in enumerate(row)]
            for paths, row in zip(found, sequences, strict=True)
        ]


class Int8Reading:
    """A reading with the 8-bit network."""

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
        """Score sequences.

        Args:
            network: the decoder.
            output: the output layer of this batch.
            frame: special tokens of the decoder.
            states: encoder states, (B, S, d).
            bias: added to the attention scores of the states, (B, S).
            sequences: at most p sequences per row.
            wanted: per row, the tokens whose log-probability is returned.
        """
        self._network, self._output = network, output
        # Multiples of the width of a vector register: the rounding of sums must not depend on the length of the other
        # rows and sequences, nor on the position of a sequence among them.
        filled = -states.shape[1] % NARROWEST
        states, bias = F.pad(states, (0, 0, 0, filled)), F.pad(bias, (0, filled), value=-torch.inf)
        self._source = [layer.source_memory(states) for layer in network.layers]
        self._source_bias = bias[:, None, None]
        self._columns = [output.vocabulary.columns(torch.tensor(tokens)) for tokens in wanted]
        self._prompt = Prompt(frame)
        inputs = self._prompt.inputs(sequences)
        self._length = inputs.shape[2]
        rows, sequence_count, _ = inputs.shape
        embedded = network.embedding(inputs.flatten(0, 1), 0)  # (B·p, T, d)
        embedded = F.pad(embedded, (0, 0, 0, -self._length % NARROWEST))
        self._width = embedded.shape[1]
        # Block-diagonal causal mask: each token sees the earlier tokens of its own sequence.
        seen = torch.block_diag(*[torch.ones(self._width, self._width).tril()] * sequence_count)
        self._memory: list[tuple[Tensor, Tensor]] = []  # each layer's keys and values, (B, p·T, H, k)
        states = self._through(embedded.flatten(0, 1), attention_bias(seen)[None, None], remembers=True)
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
        # A branch attends to the prefix of its sequence and to its own tokens so far.
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
        """Run the layers on states (B·q, d), where past_bias selects the positions each state attends to."""
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
        """Return, for each row of states (B, p, T, d), log p of the wanted tokens, (p, T, wanted)."""
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
    """Pad rows of sequences to one tensor (B, most sequences, longest)."""
    count, length = max(map(len, rows)), max((len(sequence) for row in rows for sequence in row), default=1)
    stacked = torch.full((len(rows), max(1, count), max(1, length)), pad)
    for number, row in enumerate(rows):
        for place, sequence in enumerate(row):
            stacked[number, place, : len(sequence)] = torch.tensor(sequence)
    return stacked
