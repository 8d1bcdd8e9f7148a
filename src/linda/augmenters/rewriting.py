"""One text in, one text out, by an encoder-decoder: what denoising and translation have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from linda.config import LindaConfig
from linda.engines import Engine
from linda.engines.decoding import Decoding
from linda.interpolation.longtext import split_to_window
from linda.model.batching import batches, padded
from linda.model.tokens import Tokens


@dataclass(frozen=True)
class Rewriter:
    """Reads texts with a model's encoder and writes them anew with its decoder."""

    config: LindaConfig
    tokens: Tokens
    engine: Engine

    def split_long(self, texts: Sequence[str]) -> list[list[str]]:
        """Each text in pieces that fit the model's window, white space between them kept: joined, they are the text."""
        window = self.config.max_length
        return [split_to_window(text, lambda part: len(self.tokens.ids(part)), window) for text in texts]

    @torch.inference_mode()
    def __call__(
        self, texts: Sequence[str], decoding: Decoding, seeds: Sequence[int], *, masked: bool = False
    ) -> list[str]:
        """Every text anew, in batches of like length. masked: the texts hold the model's mask token."""
        written = [""] * len(texts)
        rows = [torch.tensor(self.tokens.ids(text, masked), device=self.engine.device) for text in texts]
        for batch in batches([len(row) for row in rows], self.engine.batch_tokens, decoding.paths):
            ids, mask = padded([rows[row] for row in batch], self.config.base["pad_token_id"])
            found = self.engine.decode(self.engine.encode(ids, mask), mask, decoding, [seeds[row] for row in batch])
            for row, text in zip(batch, self.tokens.texts([best.ids for best, *_ in found]), strict=True):
                written[row] = text
        return written
