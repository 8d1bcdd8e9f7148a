"""Encoder and decoder of the BART family with 8-bit linear layers, in plain PyTorch.

BART, mBART, Marian and Pegasus have one architecture with four variations: pre- or post-normalization, normalized
embeddings, a final normalization, and the offset of positions. All but the first can be inferred from the weights.
`transformers` is not imported, because the import alone takes seconds.

Shapes: B rows, R = B·p paths or B·L tokens, H heads of size k, d = H·k.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from linda.engines.attention import attend, attention_bias
from linda.engines.layout import Layout
from linda.engines.linear import Linear, Product
from linda.engines.quantized import Matrix, quantize, quantize_above

Norm = Callable[[Tensor], Tensor]

NORMALIZES_FIRST = {"marian": False, "bart": False, "mbart": True, "pegasus": True}  # by model_type

# The in-place function, and a lower bound of its values.
ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], float]] = {
    "swish": (partial(F.silu, inplace=True), -0.2785),
    "silu": (partial(F.silu, inplace=True), -0.2785),
    "gelu": (torch.ops.aten.gelu_, -0.17),
    "relu": (torch.relu_, 0.0),
}

# Tokens encoded at once: with more, the activations between two layers no longer fit in the cache of a core.
_TOKENS_AT_ONCE = 512


class _Weights:
    """A view of the part of a state dict below a prefix."""

    def __init__(self, state: Mapping[str, Tensor], prefix: str, product: type[Product]) -> None:
        self._state, self._prefix, self._product = state, prefix, product

    def at(self, module: str) -> _Weights:
        return _Weights(self._state, f"{self._prefix}{module}.", self._product)

    def __getitem__(self, name: str) -> Tensor:
        return self._state[self._prefix + name].detach().float()

    def linear(self, *modules: str, scale_first: float = 1.0, floor: float = 0.0) -> Linear:
        """Concatenate layers with the same input into one; the outputs of the first are scaled."""
        scales = [scale_first] + [1.0] * (len(modules) - 1)
        weight, bias = (
            torch.cat([self[f"{module}.{part}"] * scale for module, scale in zip(modules, scales, strict=True)])
            for part in ("weight", "bias")
        )
        return Linear.of(weight, bias, self._product, floor)

    def norm(self, module: str) -> Norm:
        weight, bias = self[f"{module}.weight"], self[f"{module}.bias"]
        return lambda rows: F.layer_norm(rows, weight.shape, weight, bias)

    def norm_if_any(self, module: str) -> Norm:
        return self.norm(module) if f"{self._prefix}{module}.weight" in self._state else _identity


class _Residual:
    """A residual connection x + f(x), normalized before f or after the sum, depending on the family."""

    def __init__(self, norm: Norm, first: bool) -> None:
        self._norm, self._first = norm, first

    def __call__(self, rows: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
        if self._first:
            return compute(self._norm(rows)).add_(rows)
        return self._norm(compute(rows).add_(rows))


class _FeedForward:
    def __init__(self, weights: _Weights, activation: str) -> None:
        self._activation, self._floor = ACTIVATIONS[activation]
        self._widen, self._narrow = weights.linear("fc1"), weights.linear("fc2", floor=self._floor)

    def __call__(self, rows: Tensor) -> Tensor:
        return self._narrow(quantize_above(self._floor, self._activation(self._widen(quantize(rows)))))


class _EncoderLayer:
    def __init__(self, weights: _Weights, heads: int, width: int, base: Mapping[str, Any]) -> None:
        self._heads = heads
        first = NORMALIZES_FIRST[base["model_type"]]
        attention = weights.at("self_attn")
        self._read = attention.linear("q_proj", "k_proj", "v_proj", scale_first=(width // heads) ** -0.5)
        self._write = attention.linear("out_proj")
        self._feed_forward = _FeedForward(weights, base["activation_function"])
        self._attention_residual = _Residual(weights.norm("self_attn_layer_norm"), first)
        self._forward_residual = _Residual(weights.norm("final_layer_norm"), first)

    def __call__(self, rows: Tensor, bias: Tensor) -> Tensor:
        """Process rows (B·L, d) with bias (B, 1, 1, L)."""

        def attention(rows: Tensor) -> Tensor:
            read = self._read(quantize(rows)).view(len(bias), -1, 3, self._heads, rows.shape[1] // self._heads)
            queries, keys, values = read.unbind(dim=2)  # (B, L, H, k) each
            mixed = attend(queries, keys.permute(0, 2, 3, 1), values.transpose(1, 2), bias)
            return self._write(quantize(mixed, spare=True))

        return self._forward_residual(self._attention_residual(rows, attention), self._feed_forward)


class AttendedSource(Protocol):
    """The cross-attention of one layer over the source states of B rows."""

    def __call__(self, rows: Tensor, layout: Layout) -> Tensor:
        """Attend to the source: rows (N, d) → (N, d)."""
        ...

    def keep(self, into: list[int], moved: list[int], count: int) -> None:
        """Move the rows `moved` to the indices `into`, and keep the first `count` rows."""
        ...


class DecoderLayer:
    def __init__(self, weights: _Weights, heads: int, width: int, base: Mapping[str, Any]) -> None:
        self.heads, self.head_size = heads, width // heads
        first = NORMALIZES_FIRST[base["model_type"]]
        scale = self.head_size**-0.5
        past, source = weights.at("self_attn"), weights.at("encoder_attn")
        self._read_past = past.linear("q_proj", "k_proj", "v_proj", scale_first=scale)
        self._write_past = past.linear("out_proj")
        self.read_source = source.linear("q_proj", scale_first=scale)
        self._source_memory = source.linear("k_proj", "v_proj")
        self.write_source = source.linear("out_proj")
        self._feed_forward = _FeedForward(weights, base["activation_function"])
        self._past_residual = _Residual(weights.norm("self_attn_layer_norm"), first)
        self._source_residual = _Residual(weights.norm("encoder_attn_layer_norm"), first)
        self._forward_residual = _Residual(weights.norm("final_layer_norm"), first)

    def source_memory(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the keys and values of the source states (B, L, d), (B, L, H, k) each."""
        memory = self._source_memory(quantize(states.flatten(0, 1)))
        keys, values = memory.view(*states.shape[:2], 2, self.heads, self.head_size).unbind(dim=2)
        return keys, values

    def __call__(
        self,
        rows: Tensor,
        layout: Layout,
        past: Callable[[Tensor, Tensor, Tensor], Tensor],
        source: AttendedSource,
    ) -> Tensor:
        """Process tokens: rows (N, d) → (N, d).

        Args:
            rows: States of the tokens, (N, d).
            layout: Positions of the tokens in a tensor (B, q).
            past: Self-attention to these and earlier tokens: queries, keys and values (B, q, H, k) → (B·q, d).
            source: Cross-attention of this layer.
        """

        def attend_past(rows: Tensor) -> Tensor:
            read = layout.spread(self._read_past(quantize(rows))).unflatten(2, (3, self.heads, self.head_size))
            mixed = past(*read.unbind(dim=2))
            return self._write_past(quantize(layout.gathered(mixed), spare=True))

        rows = self._past_residual(rows, attend_past)
        rows = self._source_residual(rows, lambda rows: source(rows, layout))
        return self._forward_residual(rows, self._feed_forward)


class _States:
    """Cross-attention to several states."""

    def __init__(self, layer: DecoderLayer, states: Tensor, bias: Tensor) -> None:
        """Compute keys and values of states (B, L, d); the bias (B, L) is added to their attention scores."""
        self._layer = layer
        keys, values = layer.source_memory(states)
        self._keys, self._values = keys.permute(0, 2, 3, 1).contiguous(), values.transpose(1, 2).contiguous()
        self._bias = bias[:, None, None]

    def __call__(self, rows: Tensor, layout: Layout) -> Tensor:
        layer = self._layer
        queries = layout.spread(layer.read_source(quantize(rows)))
        queries = queries.view(len(self._keys), -1, layer.heads, layer.head_size)
        mixed = attend(queries, self._keys, self._values, self._bias)
        return layer.write_source(quantize(layout.gathered(mixed), spare=True))

    def keep(self, into: list[int], moved: list[int], count: int) -> None:
        self._keys, self._values = kept(self._keys, into, moved, count), kept(self._values, into, moved, count)
        self._bias = kept(self._bias, into, moved, count)


class _OneState:
    """Cross-attention to a single state, whose weight is always 1: the result is the same for all tokens."""

    def __init__(self, layer: DecoderLayer, states: Tensor) -> None:
        """Compute the result for states (B, 1, d)."""
        _, values = layer.source_memory(states)
        self._written = layer.write_source(quantize(values.flatten(1)))  # (B, d)

    def __call__(self, rows: Tensor, layout: Layout) -> Tensor:
        return layout.repeated(self._written)

    def keep(self, into: list[int], moved: list[int], count: int) -> None:
        self._written = kept(self._written, into, moved, count)


def kept(rows: Tensor, into: list[int], moved: list[int], count: int) -> Tensor:
    """Move the rows `moved` to the indices `into`, and return the first `count` rows."""
    rows[into] = rows[moved]
    return rows[:count]


class _Embedding:
    """Token and position embeddings."""

    def __init__(self, weights: _Weights, width: int, base: Mapping[str, Any]) -> None:
        self._tokens, positions = weights["embed_tokens.weight"], weights["embed_positions.weight"]
        self._positions = positions[len(positions) - base["max_position_embeddings"] :]  # BART reserves the first two
        self._scale = math.sqrt(width) if base.get("scale_embedding") else 1.0
        self._norm = weights.norm_if_any("layernorm_embedding")

    def __call__(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Embed ids of any shape at positions that broadcast to this shape, (…, d)."""
        return self._norm(F.embedding(ids, self._tokens).mul_(self._scale).add_(self._positions[positions]))

    @property
    def last(self) -> int:
        return len(self._positions) - 1


class Network:
    """The whole encoder-decoder.

    Args:
        base: Configuration of the encoder-decoder, in the format of `transformers`.
        state: Weights with the names of `LindaModel.state_dict()`.
        product: Implementation of the integer product.
    """

    def __init__(self, base: Mapping[str, Any], state: Mapping[str, Tensor], product: type[Product]) -> None:
        width = base["d_model"]
        whole = _Weights(state, "seq2seq.", product)
        encoder, decoder = whole.at("model.encoder"), whole.at("model.decoder")
        self._encoder_embedding = _Embedding(encoder, width, base)
        self._encoder_layers = [
            _EncoderLayer(encoder.at(f"layers.{number}"), base["encoder_attention_heads"], width, base)
            for number in range(base["encoder_layers"])
        ]
        self._encoder_norm = encoder.norm_if_any("layer_norm")
        self.embedding = _Embedding(decoder, width, base)
        self.layers = [
            DecoderLayer(decoder.at(f"layers.{number}"), base["decoder_attention_heads"], width, base)
            for number in range(base["decoder_layers"])
        ]
        self.norm = decoder.norm_if_any("layer_norm")
        self._output_matrix = Matrix.of(whole["lm_head.weight"], product.largest_weight)  # (V, d)
        self._output_bias = whole["final_logits_bias"][0].clone()  # (V,)
        self._product = product
        self.vocabulary_size = len(self._output_bias)

    def output_layer(self, tokens: Tensor | None = None) -> Linear:
        """Return the layer from states to logits of the given tokens (n,), or of the whole vocabulary."""
        if tokens is None:
            return Linear(self._output_matrix, self._output_bias, self._product)
        return Linear(self._output_matrix.select(tokens), self._output_bias[tokens], self._product)

    def sources(self, states: Tensor, bias: Tensor, filled: int) -> list[AttendedSource]:
        """Return the cross-attention of every layer.

        Args:
            states: Encoder states, (B, L, d).
            bias: Added to their attention scores, (B, L).
            filled: Number of masked states to append, so that sums are rounded in the same way in all batches.
        """
        if states.shape[1] == 1:
            return [_OneState(layer, states) for layer in self.layers]
        states, bias = F.pad(states, (0, 0, 0, filled)), F.pad(bias, (0, filled), value=-torch.inf)
        return [_States(layer, states, bias) for layer in self.layers]

    def encode(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Encode ids and mask (B, L) to states (B, L, d)."""
        at_once = max(1, _TOKENS_AT_ONCE // ids.shape[1])
        parts = zip(ids.split(at_once), mask.split(at_once), strict=True)
        return torch.cat([self._encode(part, part_mask) for part, part_mask in parts])

    def _encode(self, ids: Tensor, mask: Tensor) -> Tensor:
        bias = attention_bias(mask)[:, None, None]
        states = self._encoder_embedding(ids, torch.arange(ids.shape[1])).flatten(0, 1)
        for layer in self._encoder_layers:
            states = layer(states, bias)
        return self._encoder_norm(states).view(*ids.shape, -1)


def _identity(rows: Tensor) -> Tensor:
    return rows
