"""An encoder-decoder applied to single texts: the common part of denoising and translation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from linda.config import LindaConfig
from linda.engines import Engine
from linda.engines.decoding import Decoding
from linda.interpolation.longtext import split_to_window
from linda.model.batching import batches, padded
from linda.model.tokens import Tokens


def joined_pieces(pieces: list[list[str]], written: Iterable[str]) -> list[str]:
    """Join the rewritten pieces of each text, with the white space that followed each piece."""
    rewritten = iter(written)
    return ["".join(next(rewritten) + part[len(part.rstrip()) :] for part in parts) for parts in pieces]


@dataclass(frozen=True)
class Rewriter:
    """Encodes texts with a model and decodes them again."""

    config: LindaConfig
    tokens: Tokens
    engine: Engine

    def split_long(self, texts: Sequence[str]) -> list[list[str]]:
        """Split each text into pieces that fit the model's window. The pieces include all white space."""
        window = self.config.max_length
        return [split_to_window(text, lambda part: len(self.tokens.ids(part)), window) for text in texts]

    @torch.inference_mode()
    def __call__(
        self, texts: Sequence[str], decoding: Decoding, seeds: Sequence[int], *, masked: bool = False
    ) -> list[str]:
        """Rewrite the texts, in batches of similar length.

        Args:
            texts: Texts that fit the model's window.
            decoding: Search or sampling settings.
            seeds: One seed per text.
            masked: Whether the texts contain the model's mask token.

        Returns:
            One text per input, in order.

        Example:
            rewriter(["The cat sat."], Decoding(beams=4), [0])
        """
        written = [""] * len(texts)
        rows = [torch.tensor(self.tokens.ids(text, masked), device=self.engine.device) for text in texts]
        for batch in batches([len(row) for row in rows], self.engine.batch_tokens, decoding.paths):
            ids, mask = padded([rows[row] for row in batch], self.config.base["pad_token_id"])
            found = self.engine.decode(self.engine.encode(ids, mask), mask, decoding, [seeds[row] for row in batch])
            for row, text in zip(batch, self.tokens.texts([best.ids for best, *_ in found]), strict=True):
                written[row] = text
        return written
