"""Sentence vectors of a pretrained encoder, cached per process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from linda.classifier.encoder import SentenceEncoder, find_encoder
from linda.model.pretrained import find_device

# Test texts are needed again in every cell of a benchmark; generated texts are needed in one cell only.
_CACHED_TEXTS = 50_000


class SentenceVectors:
    """Vectors of unit length, with a cache of the most recently used texts."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder = encoder.eval()
        self._known: OrderedDict[tuple[str, str | None], np.ndarray] = OrderedDict()

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> np.ndarray:
        """(N, d), in the order of the texts."""
        keys = list(zip(texts, [None] * len(texts) if pairs is None else pairs, strict=True))
        missing = list(dict.fromkeys(key for key in keys if key not in self._known))
        if missing:
            seconds = None if pairs is None else [str(second) for _, second in missing]
            tokens = self._encoder.tokenize([first for first, _ in missing], seconds)
            self._known.update(zip(missing, unit_length(self._encoder(tokens).float().cpu().numpy()), strict=True))
        for key in keys:
            self._known.move_to_end(key)
        vectors = np.stack([self._known[key] for key in keys]).astype(np.float64)
        while len(self._known) > _CACHED_TEXTS:
            self._known.popitem(last=False)
        return vectors


@lru_cache(maxsize=2)  # a student's encoder and its teacher's
def _shared(encoder: str, max_length: int) -> SentenceVectors:
    return SentenceVectors(SentenceEncoder.from_pretrained(encoder, max_length).to(find_device()))


def shared_vectors(encoder: str | Path | None, max_length: int) -> SentenceVectors:
    """Return the encoder and cache that all callers in this process share."""
    return _shared(find_encoder(encoder), max_length)


def unit_length(vectors: np.ndarray) -> np.ndarray:
    """Scale vectors (N, d) to unit length."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))
