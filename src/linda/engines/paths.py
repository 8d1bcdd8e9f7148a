"""Attention for sequences decoded in parallel: the paths (beams) of a row share their keys and values.

`transformers` copies the keys and values of the source for every beam, and moves the cache of each beam whenever
beams are reordered. Here the source is stored once per row, and the past of a path is not moved: each row has `slots`
columns of keys per time step, and a mask defines which slot a path used at which step. Nothing is copied or moved until
finished rows are removed from the batch.

This works for every model whose attention goes through `transformers`' attention interface: the cache below passes the
keys of all slots to the model's own layers, which pass them to `path_attention`.
"""

from __future__ import annotations

import copy
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PretrainedConfig, PreTrainedModel
from transformers.cache_utils import Cache, CacheLayerMixin, EncoderDecoderCache

from linda.errors import LindaError

_NAME = "linda_paths"


def path_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor,
    scaling: float | None = None,
    position_bias: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attend with query (B·p, H, 1, d) for p paths of B rows; return (B·p, 1, H, d).

    Attention to the source: key and value (B, H, L, d), attention_mask (B, 1, 1, L).
    Attention to the past: key and value (B, H, slots, t, d), attention_mask (B, 1, p, t·slots).
    position_bias (1, H, 1, L or t) is used by T5.
    """
    rows, heads, size = len(key), query.shape[1], query.shape[3]
    paths = len(query) // rows
    query = query.reshape(rows, paths, heads, size).transpose(1, 2)  # (B, H, p, d)
    if key.dim() == 5:
        slots = key.shape[2]
        key, value = (x.transpose(2, 3).flatten(2, 3) for x in (key, value))  # (B, H, t·slots, d)
        if position_bias is not None:
            position_bias = position_bias.repeat_interleave(slots, dim=3)
    if position_bias is not None:
        attention_mask = attention_mask + position_bias
    mixed = scaled_dot_product_attention(query, key, value, attn_mask=attention_mask, scale=scaling)
    return mixed.transpose(1, 2).reshape(rows * paths, 1, heads, size), None


AttentionInterface.register(_NAME, path_attention)


Model = TypeVar("Model", bound=torch.nn.Module)


def shared_copy(model: Model) -> Model:
    """Return a copy in evaluation mode that shares the weights of the model, which is not changed."""
    weights: dict[int, Any] = {id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())}
    return copy.deepcopy(model, weights).eval()


def with_path_attention(seq2seq: PreTrainedModel) -> PreTrainedModel:
    """Return a copy of the model that uses `path_attention`."""
    if not seq2seq._can_set_attn_implementation():
        raise LindaError(
            f"{type(seq2seq).__name__} has its own attention implementation; use a base model with the attention "
            "interface of transformers (Marian, BART, mBART, T5, Pegasus, …)"
        )
    attending = shared_copy(seq2seq)
    for module in attending.modules():
        if isinstance(config := getattr(module, "config", None), PretrainedConfig):
            config._attn_implementation = _NAME
    return attending


class _SourceLayer(CacheLayerMixin):
    """Keys and values of one layer for the source, (B, H, L, d); written once."""

    keys: Tensor
    values: Tensor

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.keys, self.values = key_states.contiguous(), value_states.contiguous()
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        self.lazy_initialization(key_states, value_states)
        return self.keys, self.values

    def get_seq_length(self) -> int:
        return self.keys.shape[2] if self.is_initialized else 0

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.get_seq_length(), 0

    def get_max_length(self) -> int:
        return self.get_seq_length()

    def keep(self, moved: Tensor, into: Tensor, rows: int) -> None:
        for tensor in (self.keys, self.values):
            tensor[into] = tensor[moved]
        self.keys, self.values = self.keys[:rows], self.values[:rows]


class _PastLayer(CacheLayerMixin):
    """Keys and values of one layer for the generated tokens, (B, H, capacity, slots, d)."""

    keys: Tensor
    values: Tensor

    def __init__(self, rows: int, slots: int, capacity: int) -> None:
        super().__init__()
        self.rows, self.slots, self.capacity = rows, slots, capacity
        self.written = 0

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        _, heads, _, size = key_states.shape
        # Zeros: unused slots are masked, but 0 · NaN would be NaN.
        self.keys = key_states.new_zeros(self.rows, heads, self.capacity, self.slots, size)
        self.values = torch.zeros_like(self.keys)
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append the states of one token (B·p, H, 1, d); return all, (B, H, slots, t, d)."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        paths = len(key_states) // self.rows
        for held, new in ((self.keys, key_states), (self.values, value_states)):
            held[:, :, self.written, :paths] = new.unflatten(0, (self.rows, paths)).squeeze(3).transpose(1, 2)
        self.written += 1
        past = slice(self.written)
        return self.keys[:, :, past].transpose(2, 3), self.values[:, :, past].transpose(2, 3)

    def get_seq_length(self) -> int:
        return self.written

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.written + query_length, 0

    def get_max_length(self) -> int:
        return self.capacity

    def keep(self, moved: Tensor, into: Tensor, rows: int) -> None:
        for tensor in (self.keys, self.values):
            tensor[into, :, : self.written] = tensor[moved, :, : self.written]
        self.keys, self.values, self.rows = self.keys[:rows], self.values[:rows], rows


class TorchPaths:
    """The paths of a batch, extended by one token per step by a model with `path_attention`."""

    def __init__(self, model: PreTrainedModel, states: Tensor, bias: Tensor, slots: int, capacity: int) -> None:
        """Start empty paths over the given source.

        Args:
            model: Model from `with_path_attention`.
            states: Encoder states of the source, (B, S, d).
            bias: Added to the attention scores of the source positions, (B, S).
            slots: Maximum number of paths per row.
            capacity: Maximum number of tokens per path.
        """
        self._model = model
        self._states = states
        bias = bias.clamp_min(torch.finfo(states.dtype).min)  # finite, like the masks of `transformers`
        self._source_bias = bias.to(states.dtype)[:, None, None, :]  # (B, 1, 1, S)
        self._slots = torch.arange(slots, device=states.device)
        self._route = self._slots.new_empty(len(states), 1, 0)  # (B, p, t): the slot of each path at each time
        new_past_layer: Any = partial(_PastLayer, len(states), slots, capacity)
        self._past = Cache(layer_class_to_replicate=new_past_layer)
        self._source = Cache(layer_class_to_replicate=_SourceLayer)
        self._cache = EncoderDecoderCache(self._past, self._source)

    def step(self, tokens: Tensor) -> Tensor:
        """Append tokens (B, p), one per path; return the logits of the following token, (B, p, V)."""
        rows, paths = tokens.shape
        here = self._slots[:paths].expand(rows, paths)
        self._route = torch.cat([self._route, here[:, :, None]], dim=2)
        hidden = (self._route[..., None] != self._slots).flatten(2)  # (B, p, t·slots)
        past_mask = hidden.to(self._states.dtype).mul_(torch.finfo(self._states.dtype).min)
        output = self._model(
            encoder_outputs=(self._states,),
            attention_mask=self._source_bias,
            decoder_input_ids=tokens.reshape(-1, 1),
            decoder_attention_mask=past_mask[:, None],
            past_key_values=self._cache,
            use_cache=True,
        )
        return output.logits.view(rows, paths, -1)

    def follow(self, parents: Tensor) -> None:
        """Reorder the paths: path i of each row continues the previous path parents[:, i]; parents (B, p)."""
        self._route = self._route.gather(1, parents[:, :, None].expand(-1, -1, self._route.shape[2]))

    def keep(self, order: list[int]) -> None:
        """Keep the rows `order`, in this order. Only rows beyond the new number of rows may move."""
        changed = [row for row, old in enumerate(order) if row != old]
        into, moved = self._slots.new_tensor(changed), self._slots.new_tensor([order[row] for row in changed])
        layers: Any = self._past.layers + self._source.layers
        for layer in layers:
            layer.keep(moved=moved, into=into, rows=len(order))
        order_tensor = self._slots.new_tensor(order)
        self._route, self._source_bias = self._route[order_tensor], self._source_bias[order_tensor]
        self._states = self._states[: len(order)]  # only the shape is read: the keys are in the cache
