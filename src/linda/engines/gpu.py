"""What a GPU is given: half precision, and as many tokens at once as its memory holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from linda.errors import LindaError

PRECISIONS = {"32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

# Searching holds the logits of a path some times over: raw, masked, sorted.
_COPIES_OF_LOGITS = 4
# A path of the shortest texts has so many tokens: the fewer, the more paths, and logits, in a batch.
_SHORTEST = 8
# Of the memory that is free: the allocator's own waste, and what other programs may take meanwhile.
_USED_SHARE = 0.5
_MOST = 2**18


def find_precision(name: str, device: torch.device) -> torch.dtype:
    """auto: half precision on a GPU, where it is twice as fast or more; 32 bits on a CPU, where it is slower."""
    if name == "auto":
        if device.type != "cuda":
            return torch.float32
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    if name not in PRECISIONS:
        raise LindaError(f"precision {name!r} is not known: take one of auto, {', '.join(PRECISIONS)}")
    return PRECISIONS[name]


def fitting_tokens(base: Mapping[str, Any], free: int, bytes_of_number: int) -> int:
    """How many tokens (rows × paths × length) one batch may have in `free` bytes.

    base: the configuration of the encoder-decoder. Most is held by the keys and values of the decoder's layers, of the
    text's own past and of the source, and by the logits of every path, in 32 bits.
    """
    layers = base.get("decoder_layers") or base.get("num_decoder_layers") or base["num_layers"]
    past = layers * 4 * base["d_model"] * bytes_of_number
    logits = _COPIES_OF_LOGITS * 4 * base["vocab_size"] // _SHORTEST
    return max(1, min(_MOST, int(_USED_SHARE * free) // (past + logits)))
