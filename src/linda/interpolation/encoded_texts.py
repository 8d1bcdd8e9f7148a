"""Encoder states of texts, cached for other pairs and ratios."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

import torch
from torch import Tensor

from linda.engines import Engine
from linda.errors import LindaError
from linda.interpolation.jobs import Ids
from linda.model.batching import batches, padded

MAX_TOKENS = 2**17  # 256 MB with states of size 512


class EncodedTexts:
    """Encodes texts to states (L, d), with a least recently used cache."""

    def __init__(self, engine: Engine, pad: int, batch_tokens: int, max_tokens: int = MAX_TOKENS) -> None:
        self._engine = engine
        self._pad = pad
        self._batch_tokens = batch_tokens
        self._max_tokens = max_tokens
        self._states: OrderedDict[Ids, Tensor] = OrderedDict()  # least recently used first

    def __call__(self, texts: Iterable[Ids]) -> dict[Ids, Tensor]:
        wanted = dict.fromkeys(texts)
        new = [text for text in wanted if text not in self._states]
        for batch in batches([len(text) for text in new], self._batch_tokens):
            ids, mask = padded([torch.tensor(new[i], device=self._engine.device) for i in batch], self._pad)
            states = self._engine.encode(ids, mask)
            if not states.isfinite().all():
                raise LindaError("the encoder returned NaN or infinity: the model is damaged; download it again")
            for i, row in zip(batch, states, strict=True):
                self._states[new[i]] = row[: len(new[i])].clone()  # a view would keep the padding alive
        for text in wanted:
            self._states.move_to_end(text)
        found = {text: self._states[text] for text in wanted}
        tokens = sum(map(len, self._states))
        while tokens > self._max_tokens:
            text, _ = self._states.popitem(last=False)
            tokens -= len(text)
        return found
