"""Sequences decoded in parallel by the 8-bit network, with a key-value cache that is a tree.

The beams of a row share their common prefix, so each row caches the keys and values of a tree: every token of any of
its paths has a slot, and a mask defines which path attends to which slot. The slots of tokens that are no longer on any
path are reused. Nothing is moved when beams are reordered, and nothing is stored twice.
"""

from __future__ import annotations

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from linda.engines.attention import attend, attention_bias
from linda.engines.bart_family import DecoderLayer, Network, kept
from linda.engines.layout import Layout
from linda.engines.quantized import quantize
from linda.engines.short_list import Output
from linda.model.batching import MIN_WIDTH

_GROWTH = 8  # slots by which a tree grows


class Int8Paths:
    """The paths of a batch (protocol `Paths` of search.py), extended by one token per step."""

    def __init__(self, network: Network, output: Output, states: Tensor, bias: Tensor, max_tokens: int) -> None:
        """Start empty paths over the given source.

        Args:
            network: The network.
            output: Output layer of this batch.
            states: Encoder states of the source, (B, S, d).
            bias: Added to the attention scores of the source positions, (B, S).
            max_tokens: Maximum total number of tokens of all paths of a row.
        """
        self._network, self._output = network, output
        self._sources = network.sources(states, bias, filled=max(0, MIN_WIDTH - bias.shape[1]))
        capacity = max(MIN_WIDTH, max_tokens) + _GROWTH
        self._trees = [_Tree(len(states), layer, capacity) for layer in network.layers]
        self._seen = torch.zeros(len(states), 1, MIN_WIDTH, dtype=torch.bool)  # (B, p, slots)
        self._written = 0

    def step(self, tokens: Tensor) -> Tensor:
        """Append tokens (B, p), one per path; return the logits of the following token, (B, p, V)."""
        rows, paths = tokens.shape
        slots = self._free_slots(paths)
        self._seen.scatter_(2, slots[:, :, None], True)
        past_bias = attention_bias(self._seen)[:, None]  # (B, 1, p, slots)
        states = self._network.embedding(tokens.flatten(), torch.tensor(self._written))  # (B·p, d)
        self._written += 1
        layout = Layout(rows, paths)
        for layer, tree, source in zip(self._network.layers, self._trees, self._sources, strict=True):
            states = layer(states, layout, partial(_attend_tree, tree, slots, past_bias), source)
        return self._output(quantize(self._network.norm(states)), rows)

    def follow(self, parents: Tensor) -> None:
        """Reorder the paths: path i of each row continues the previous path parents[:, i]; parents (B, p)."""
        self._seen = self._seen.gather(1, parents[:, :, None].expand(-1, -1, self._seen.shape[2]))

    def keep(self, order: list[int]) -> None:
        """Keep the rows `order`, in this order. Only rows beyond the new number of rows may move."""
        into = [row for row, old in enumerate(order) if row != old]
        moved = [order[row] for row in into]
        for tree, source in zip(self._trees, self._sources, strict=True):
            tree.keep(into, moved, len(order))
            source.keep(into, moved, len(order))
        self._seen = self._seen[order]
        self._output.keep(order)

    def _free_slots(self, paths: int) -> Tensor:
        """Return the first `paths` slots of each row that no path uses, (B, p)."""
        in_use = self._seen.any(dim=1)  # (B, slots)
        missing = int(in_use.sum(dim=1).max()) + paths - in_use.shape[1]
        if missing > 0:
            growth = _GROWTH * math.ceil(missing / _GROWTH)
            self._seen, in_use = F.pad(self._seen, (0, growth)), F.pad(in_use, (0, growth))
            for tree in self._trees:
                tree.widen(growth)
        return in_use.to(torch.int8).argsort(dim=1, stable=True)[:, :paths]


class _Tree:
    """Keys and values of one layer for the generated tokens, (B, H, capacity, k); the first `_width` are in use."""

    def __init__(self, rows: int, layer: DecoderLayer, capacity: int) -> None:
        # The system provides pages of memory on first use, and a tree rarely needs its whole capacity.
        shape = rows, layer.heads, capacity, layer.head_size
        self._keys, self._values = (torch.empty(shape) for _ in range(2))
        self._width = 0
        self.widen(MIN_WIDTH)

    def widen(self, slots: int) -> None:
        old, self._width = self._width, self._width + slots
        for tensor in (self._keys, self._values):
            tensor[:, :, old : self._width] = 0.0  # masked until they are used, but 0 · NaN would be NaN

    def add(self, slots: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store the keys and values of one token per path, (B, p, H, k), in the slots (B, p); return all.

        The keys are returned as a view (B, H, k, n); storing them in this layout would be slower.
        """
        rows = torch.arange(len(slots))[:, None]
        for stored, new in ((self._keys, keys), (self._values, values)):
            stored.transpose(1, 2)[rows, slots] = new
        return self._keys[:, :, : self._width].transpose(2, 3), self._values[:, :, : self._width]

    def keep(self, into: list[int], moved: list[int], count: int) -> None:
        for tensor in (self._keys, self._values):
            kept(tensor[:, :, : self._width], into, moved, count)
        self._keys, self._values = self._keys[:count], self._values[:count]


def _attend_tree(tree: _Tree, slots: Tensor, bias: Tensor, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Store one token per path in its slot, and attend to all tokens of the tree that the bias (B, 1, p, n) allows."""
    return attend(queries, *tree.add(slots, keys, values), bias)
