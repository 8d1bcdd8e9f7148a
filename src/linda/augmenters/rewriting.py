"""One text in, one text out, by an encoder-decoder: what denoising and translation have in common."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from linda.decoding import Decoding
from linda.engines import Engine, batches
from linda.longtext import split_to_window
from linda.model import LindaModel

_BATCH_TOKENS = 4096


def split_long(texts: Sequence[str], model: LindaModel) -> list[list[str]]:
    """Each text in pieces that fit the model's window, white space between them kept: joined, they are the text."""
    window = model.config.max_length
    return [split_to_window(text, lambda part: len(_ids(model, part)), window) for text in texts]


@torch.inference_mode()
def rewrite(
    model: LindaModel,
    engine: Engine,
    texts: Sequence[str],
    decoding: Decoding,
    seeds: Sequence[int],
    *,
    masked: bool = False,
) -> list[str]:
    """Encodes and decodes every text, in batches of like length. masked: the texts hold the model's mask token."""
    written = [""] * len(texts)
    lengths = [len(_ids(model, text)) for text in texts]
    for batch in batches(lengths, _BATCH_TOKENS, decoding.paths):
        inputs = model.tokenize([texts[row] for row in batch], masked=masked)
        states = model.encode(**inputs)
        found = engine.decode(states, inputs["attention_mask"], decoding, [seeds[row] for row in batch])
        for row, text in zip(batch, model.detokenize([best.ids for best, *_ in found]), strict=True):
            written[row] = text
    return written


def _ids(model: LindaModel, text: str) -> list[int]:
    ids: list[int] = model.tokenizer(text, verbose=False)["input_ids"]
    return ids
