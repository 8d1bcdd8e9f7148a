"""The fast engine for CPUs: models of the BART family with 8-bit weights."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from linda.engines import CPU_BATCH_TOKENS
from linda.engines.attention import attention_bias
from linda.engines.bart_family import ACTIVATIONS, NORMALIZES_FIRST, Network
from linda.engines.decoding import Decoding, Frame, Hypothesis
from linda.engines.forced import Int8Scores
from linda.engines.int8_paths import Int8Paths
from linda.engines.linear import Linear, Product, find_product
from linda.engines.search import Vocabulary, decode
from linda.engines.short_list import Output, ShortLists


class Int8Engine:
    """Computes on any CPU, with the weights quantized to 8 bits."""

    name = "int8"
    device = torch.device("cpu")
    batch_tokens = CPU_BATCH_TOKENS

    def __init__(
        self, base: dict[str, Any], weights: Mapping[str, Tensor], product: type[Product] | None = None
    ) -> None:
        """Quantize the weights.

        Args:
            base: Configuration of the encoder-decoder.
            weights: Weights, named as in `LindaModel.state_dict()`.
            product: Implementation of the integer product; None selects the fastest that is exact on this machine.
        """
        self._network = Network(base, weights, product or find_product())
        self._frame = Frame.from_config(base)

    @staticmethod
    def why_not(base: Mapping[str, Any], device: torch.device) -> str | None:
        """Return why the engine cannot run this model on this device, or None if it can."""
        family, activation = base.get("model_type"), base.get("activation_function")
        if family not in NORMALIZES_FIRST:
            return f"the model family is {family!r}, supported are {', '.join(NORMALIZES_FIRST)}"
        if activation not in ACTIVATIONS:
            return f"the activation function is {activation!r}, supported are {', '.join(ACTIVATIONS)}"
        if torch.device(device).type != "cpu":
            return f"it runs on a CPU, not on {device}"
        return None

    @torch.inference_mode()
    def encode(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Encode ids and mask (B, L) to states (B, L, d)."""
        return self._network.encode(ids, mask)

    @torch.inference_mode()
    def decode(
        self,
        states: Tensor,
        mask: Tensor,
        decoding: Decoding,
        seeds: Sequence[int],
        pieces: Sequence[Collection[int]] | None = None,
        prior: Tensor | None = None,
        lengths: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        def start_paths(
            states: Tensor, bias: Tensor, *, copies: int, beams: int, longest: int
        ) -> tuple[Int8Paths, Vocabulary]:
            output = self._output(None if pieces is None else [row for row in pieces for _ in range(copies)])
            return Int8Paths(self._network, output, states, bias, beams * longest), output.vocabulary

        return decode(start_paths, states, mask, self._frame, decoding, seeds, prior, lengths)

    @torch.inference_mode()
    def score(
        self,
        states: Tensor,
        mask: Tensor,
        sequences: Sequence[Sequence[Sequence[int]]],
        wanted: Sequence[Sequence[int]],
        prior: Tensor | None = None,
    ) -> Int8Scores:
        bias = attention_bias(mask, prior)
        return Int8Scores(self._network, self._output(wanted), self._frame, states, bias, sequences, wanted)

    def _output(self, pieces: Sequence[Collection[int]] | None) -> Output:
        return Output([self._whole_vocabulary]) if pieces is None else self._short_lists.output(pieces)

    @cached_property
    def _short_lists(self) -> ShortLists:
        return ShortLists(self._network, self._frame.ends, self._frame.banned)

    @cached_property
    def _whole_vocabulary(self) -> Linear:
        return self._network.output_layer()
