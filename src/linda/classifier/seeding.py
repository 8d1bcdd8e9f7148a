"""Seeded randomness that leaves the global random state unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def random_stream(seed: int, stream: int) -> np.random.Generator:
    """Return one of several independent streams of a seed, so that more draws in one do not shift the others."""
    return np.random.default_rng([seed, stream])


@contextmanager
def seeded_dropout(seed: int, device: torch.device) -> Iterator[None]:
    """Set torch's global random state, which dropout layers use, inside the block, and restore it afterwards."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
