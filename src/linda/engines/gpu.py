"""Settings for GPUs: half precision, and the batch size that fits in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from linda.errors import LindaError

PRECISIONS = {"32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

_COPIES_OF_LOGITS = 4  # of each path during the search: raw, masked, sorted …
_MIN_PATH_TOKENS = 8  # with short paths, a batch of given tokens has more paths, and each path has its logits
_USED_SHARE = 0.5  # of the free memory; the rest is for fragmentation and other programs
_MAX_TOKENS = 2**18


def find_precision(name: str, device: torch.device) -> torch.dtype:
    """Resolve a precision. "auto" is half precision on a GPU (at least twice as fast), 32 bits on a CPU."""
    if name == "auto":
        if device.type != "cuda":
            return torch.float32
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    if name not in PRECISIONS:
        raise LindaError(f"unknown precision {name!r}; choose one of auto, {', '.join(PRECISIONS)}")
    return PRECISIONS[name]


def fitting_tokens(base: Mapping[str, Any], free: int, bytes_of_number: int) -> int:
    """Return the number of tokens (rows × paths × length) of a batch that fits in `free` bytes.

    Most memory is needed for the keys and values of the decoder layers (of the generated tokens and of the source) and
    for the 32-bit logits of every path. `base` is the configuration of the encoder-decoder.
    """
    layers = base.get("decoder_layers") or base.get("num_decoder_layers") or base["num_layers"]
    past = layers * 4 * base["d_model"] * bytes_of_number
    logits = _COPIES_OF_LOGITS * 4 * base["vocab_size"] // _MIN_PATH_TOKENS
    return max(1, min(_MAX_TOKENS, int(_USED_SHARE * free) // (past + logits)))
