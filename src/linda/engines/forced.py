"""Forced decoding: score given token sequences in parallel instead of generating step by step.

First, p sequences per row are scored. Then *branches* can be scored: other tokens after a prefix of one of the
sequences, which is not computed again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from linda.engines.attention import Prefix, attend, attend_branches, attention_bias
from linda.engines.bart_family import Network
from linda.engines.decoding import Frame
from linda.engines.layout import Layout
from linda.engines.quantized import quantize
from linda.engines.short_list import Output
from linda.model.batching import MIN_WIDTH

_POSITIONS_AT_ONCE = 1024  # rows of logits: 32 MB


class Branch(NamedTuple):
    """`tokens` after the first `length` tokens of a sequence."""

    sequence: int
    length: int
    tokens: Sequence[int]


class ForcedScores(Protocol):
    """Scores of given sequences, which have no start and end markers."""

    log_p: list[list[Tensor]]
    """Per row and sequence of T tokens: log p of each wanted token after 0, 1 … T tokens, (T + 1, wanted)."""

    def score_branches(self, branches: Sequence[Sequence[Branch]]) -> list[list[Tensor]]:
        """Return per row and branch of T tokens: log p of each wanted token after 1 … T of them, (T, wanted)."""
        ...


class Int8Scores:
    """Scores computed by the 8-bit network."""

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
            network: The network.
            output: Output layer of this batch.
            frame: Special tokens of the decoder.
            states: Encoder states, (B, S, d).
            bias: Added to the attention scores of the states, (B, S).
            sequences: At most p sequences per row.
            wanted: Tokens of each row whose log-probability to return.
        """
        self._network, self._output = network, output
        # Padded to multiples of the width of a vector register, because the rounding of sums must not depend on the
        # length of other rows and sequences, nor on the index of a sequence among them.
        self._sources = network.sources(states, bias, filled=-states.shape[1] % MIN_WIDTH)
        self._columns = [output.vocabulary.columns(torch.tensor(tokens)) for tokens in wanted]
        self._prompt = frame.prompt
        prompted = [[[*self._prompt, *sequence] for sequence in row] for row in sequences]
        lengths = _lengths(prompted)
        self._width = MIN_WIDTH * math.ceil(int(lengths.max()) / MIN_WIDTH)
        positions = torch.arange(self._width).expand(*lengths.shape, -1)  # (B, p, T)
        causal = attention_bias(torch.ones(self._width, self._width).tril())[None, None]
        self._memory: list[tuple[Tensor, Tensor]] = []  # each layer's keys and values, (B, p, H, T, k)

        def attend_sequences(layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            keys, values = (tensor.transpose(1, 2).contiguous() for tensor in (keys, values))  # (B·p, H, T, k)
            self._memory.append((keys.unflatten(0, lengths.shape), values.unflatten(0, lengths.shape)))
            return attend(queries, keys.transpose(2, 3), values, causal)

        # For attention, every sequence is a separate row.
        real = positions < lengths[:, :, None]
        states = self._through(prompted, positions[real], Layout.of(real.flatten(0, 1)), attend_sequences)
        self.log_p = [[log_p[len(self._prompt) - 1 :] for log_p in row] for row in self._log_p(states, prompted)]

    def score_branches(self, branches: Sequence[Sequence[Branch]]) -> list[list[Tensor]]:
        tokens = [[branch.tokens for branch in row] for row in branches]
        lengths = _lengths(tokens)  # (B, c)
        length = int(lengths.max())
        if length == 0:
            return [
                [torch.empty(0, len(columns)) for _ in row]
                for row, columns in zip(branches, self._columns, strict=True)
            ]
        starts, paths = torch.zeros_like(lengths), torch.zeros_like(lengths)
        for number, row in enumerate(branches):
            for column, branch in enumerate(row):  # starts: the position of a branch's first token
                starts[number, column], paths[number, column] = len(self._prompt) + branch.length, branch.sequence
        slots = torch.arange(self._memory[0][0].shape[1] * self._width)  # slot of a token: path · width + position
        seen = (slots // self._width == paths[:, :, None]) & (slots % self._width < starts[:, :, None])  # (B, c, p·T)
        bias = attention_bias(seen)[:, None, :, None]

        def attend_to_branches(layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            old_keys, old_values = (tensor.transpose(1, 2).flatten(2, 3) for tensor in self._memory[layer])
            queries, keys, values = (tensor.unflatten(1, (-1, length)) for tensor in (queries, keys, values))
            return attend_branches(queries, keys, values, Prefix(old_keys, old_values, bias))

        positions = (starts[:, :, None] + torch.arange(length)).clamp_max(self._network.embedding.last)  # (B, c, t)
        real = torch.arange(length) < lengths[:, :, None]
        states = self._through(tokens, positions[real], Layout.of(real.flatten(1)), attend_to_branches)
        return self._log_p(states, tokens)

    def _through(
        self,
        tokens: Sequence[Sequence[Sequence[int]]],
        positions: Tensor,
        layout: Layout,
        past: Callable[[int, Tensor, Tensor, Tensor], Tensor],
    ) -> Tensor:
        """Return the states (N, d) of N tokens.

        Args:
            tokens: Token ids per row and sequence.
            positions: Positions of the tokens in their texts, (N,).
            layout: Positions of the tokens in the padded tensor for attention, (C, q).
            past: Self-attention, given the number of a layer and its queries, keys and values (C, q, H, k).
        """
        flat = torch.tensor([token for row in tokens for sequence in row for token in sequence])
        states = self._network.embedding(flat, positions)
        for number, (layer, source) in enumerate(zip(self._network.layers, self._sources, strict=True)):
            states = layer(states, layout, partial(past, number), source)
        return self._network.norm(states)

    def _log_p(self, states: Tensor, tokens: Sequence[Sequence[Sequence[int]]]) -> list[list[Tensor]]:
        """Return log p of the wanted tokens of each row after each of its tokens, given all states (N, d)."""
        counts = torch.tensor([sum(map(len, row)) for row in tokens])
        of_token = torch.arange(len(tokens)).repeat_interleave(counts)
        columns = pad_sequence(self._columns, batch_first=True)  # (B, w)
        parts = [
            self._output.log_p(quantize(part), rows, columns[rows])
            for part, rows in zip(states.split(_POSITIONS_AT_ONCE), of_token.split(_POSITIONS_AT_ONCE), strict=True)
        ]
        found = iter(torch.cat(parts).split([len(sequence) for row in tokens for sequence in row]))
        return [
            [next(found)[:, : len(row_columns)] for _ in row]
            for row, row_columns in zip(tokens, self._columns, strict=True)
        ]


def _lengths(rows: Sequence[Sequence[Sequence[int]]]) -> Tensor:
    """Return the number of tokens of each sequence (B, maximum number of sequences); 0 where a row has fewer."""
    return pad_sequence([torch.tensor([len(sequence) for sequence in row], dtype=torch.long) for row in rows], True)
