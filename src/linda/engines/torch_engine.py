"""The engine that is always there: PyTorch, on any device, in the model's own precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from linda.decoding import Decoding, Frame, Hypothesis
from linda.engines.paths import TorchPaths, with_path_attention
from linda.engines.search import beam_search, walk

if TYPE_CHECKING:
    from linda.model import LindaModel


class TorchEngine:
    """Decodes with the model's own layers and weights; later changes of the weights are seen."""

    name = "torch"

    def __init__(self, model: LindaModel) -> None:
        self._twin = with_path_attention(model.seq2seq)
        self._frame = Frame.of(model.seq2seq)

    @torch.inference_mode()
    def decode(self, states: Tensor, mask: Tensor, decoding: Decoding, seeds: Sequence[int]) -> list[list[Hypothesis]]:
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
            paths = TorchPaths(self._twin, states, mask, slots=decoding.beams, capacity=max(limits))
            return beam_search(paths, self._frame, decoding, limits, states.device)
        n = decoding.n
        states, mask = states.repeat_interleave(n, dim=0), mask.repeat_interleave(n, dim=0)
        limits = [limit for limit in limits for _ in range(n)]
        streams = [(seed, sample) for seed in seeds for sample in range(n)]
        paths = TorchPaths(self._twin, states, mask, slots=1, capacity=max(limits))
        texts = walk(paths, self._frame, decoding, limits, streams, states.device)
        return [texts[row : row + n] for row in range(0, len(texts), n)]
