"""The engine that is always there: PyTorch, on any device, in the model's own precision."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from linda.decoding import Decoding, Frame, Hypothesis
from linda.engines.paths import TorchPaths, twin, with_path_attention
from linda.engines.search import WHOLE, Vocabulary, write

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class TorchEngine:
    """Decodes with the model's own layers and weights; later changes of the weights are seen."""

    name = "torch"

    def __init__(self, seq2seq: PreTrainedModel) -> None:
        self._encoder = twin(seq2seq.get_encoder())
        self._decoder = with_path_attention(seq2seq)
        self._frame = Frame.of(seq2seq)

    @property
    def device(self) -> torch.device:
        return self._decoder.device

    @torch.inference_mode()
    def encode(self, ids: Tensor, mask: Tensor) -> Tensor:
        states: Tensor = self._encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        return states

    @torch.inference_mode()
    def decode(
        self,
        states: Tensor,
        mask: Tensor,
        decoding: Decoding,
        seeds: Sequence[int],
        pieces: Sequence[Collection[int]] | None = None,
    ) -> list[list[Hypothesis]]:
        try:
            return write(self._begin, states, mask, self._frame, decoding, seeds)
        except torch.OutOfMemoryError:
            # A GPU tells its limit only by failing. Rows are independent, so halves give the same texts.
            half = len(states) // 2
            if half == 0:
                raise
        return self.decode(states[:half], mask[:half], decoding, seeds[:half]) + self.decode(
            states[half:], mask[half:], decoding, seeds[half:]
        )

    def _begin(
        self, states: Tensor, mask: Tensor, *, copies: int, beams: int, longest: int
    ) -> tuple[TorchPaths, Vocabulary]:
        return TorchPaths(self._decoder, states, mask, slots=beams, capacity=longest), WHOLE
