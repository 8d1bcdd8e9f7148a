"""The engine that is always there: PyTorch, on any device, in the model's own precision."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from linda.decoding import Decoding, Frame, Hypothesis
from linda.engines.paths import TorchPaths, twin, with_path_attention
from linda.engines.search import beam_search, walk

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
            return self._decode(states, mask, decoding, seeds)
        except torch.OutOfMemoryError:
            # A GPU tells its limit only by failing. Rows are independent, so halves give the same texts.
            half = len(states) // 2
            if half == 0:
                raise
        return self.decode(states[:half], mask[:half], decoding, seeds[:half]) + self.decode(
            states[half:], mask[half:], decoding, seeds[half:]
        )

    def _decode(self, states: Tensor, mask: Tensor, decoding: Decoding, seeds: Sequence[int]) -> list[list[Hypothesis]]:
        limits = [decoding.limit(length, self._frame.window) for length in mask.sum(dim=1).tolist()]
        if not decoding.sample and decoding.beams > 1:
            paths = TorchPaths(self._decoder, states, mask, slots=decoding.beams, capacity=max(limits))
            return beam_search(paths, self._frame, decoding, limits, states.device)
        n = decoding.n
        states, mask = states.repeat_interleave(n, dim=0), mask.repeat_interleave(n, dim=0)
        limits = [limit for limit in limits for _ in range(n)]
        streams = [(seed, sample) for seed in seeds for sample in range(n)]
        paths = TorchPaths(self._decoder, states, mask, slots=1, capacity=max(limits))
        texts = walk(paths, self._frame, decoding, limits, streams, states.device)
        return [texts[row : row + n] for row in range(0, len(texts), n)]
