"""Sentence vectors of a pretrained encoder, cached per process and, optionally, in a file."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from linda.classifier.encoder import SentenceEncoder, find_encoder
from linda.files.cache import cache_key, open_cache
from linda.model.pretrained import find_device

# Test texts are needed again in every cell of a benchmark; generated texts are needed in one cell only.
_CACHED_TEXTS = 50_000

_Key = tuple[str, str | None]  # a text, or a pair of texts


@dataclass(frozen=True)
class VectorCache:
    """A file with vectors of earlier runs. `encoder` identifies the encoder with its weights."""

    path: Path
    encoder: str


class SentenceVectors:
    """Vectors of unit length, with a cache of the most recently used texts.

    Args:
        encoder: Computes the vectors.
        cache: Keeps them for other processes and runs.

    Example:
        SentenceVectors(SentenceEncoder.from_pretrained())(["a fine film"])
    """

    def __init__(self, encoder: SentenceEncoder, cache: VectorCache | None = None) -> None:
        self._encoder = encoder.eval()
        self._cache = cache
        self._known: OrderedDict[_Key, np.ndarray] = OrderedDict()

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> np.ndarray:
        """Return the vectors (N, d), in the order of the texts."""
        keys = list(zip(texts, [None] * len(texts) if pairs is None else pairs, strict=True))
        missing = list(dict.fromkeys(key for key in keys if key not in self._known))
        if missing:
            self._known.update(self._from_cache(missing))
            self._known.update(self._computed([key for key in missing if key not in self._known]))
        for key in keys:
            self._known.move_to_end(key)
        vectors = np.stack([self._known[key] for key in keys]).astype(np.float64)
        while len(self._known) > _CACHED_TEXTS:
            self._known.popitem(last=False)
        return vectors

    def _computed(self, keys: Sequence[_Key]) -> dict[_Key, np.ndarray]:
        if not keys:
            return {}
        seconds = None if keys[0][1] is None else [str(second) for _, second in keys]
        tokens = self._encoder.tokenize([first for first, _ in keys], seconds)
        vectors = unit_length(self._encoder(tokens).float().cpu().numpy())
        if self._cache is not None:
            values = {self._key_in_file(key): vector.tobytes() for key, vector in zip(keys, vectors, strict=True)}
            open_cache(self._cache.path).put(values)
        return dict(zip(keys, vectors, strict=True))

    def _from_cache(self, keys: Sequence[_Key]) -> dict[_Key, np.ndarray]:
        if self._cache is None:
            return {}
        places = {self._key_in_file(key): key for key in keys}
        found = open_cache(self._cache.path).get(list(places))
        return {places[place]: np.frombuffer(value, dtype=np.float32) for place, value in found.items()}

    def _key_in_file(self, key: _Key) -> bytes:
        assert self._cache is not None
        return cache_key("vector", self._cache.encoder, self._encoder.max_length, *key)


@lru_cache(maxsize=2)  # a student's encoder and its teacher's
def _shared(encoder: str, max_length: int, cache: VectorCache | None) -> SentenceVectors:
    return SentenceVectors(SentenceEncoder.from_pretrained(encoder, max_length).to(find_device()), cache)


def shared_vectors(encoder: str | Path | None, max_length: int, cache: VectorCache | None = None) -> SentenceVectors:
    """Return the encoder and cache that all callers in this process share."""
    return _shared(find_encoder(encoder), max_length, cache)


def unit_length(vectors: np.ndarray) -> np.ndarray:
    """Scale vectors (N, d) to unit length."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))
