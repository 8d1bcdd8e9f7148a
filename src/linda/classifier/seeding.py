"""Randomness that follows from a seed, without any lasting change of a global random state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def random_stream(seed: int, stream: int) -> np.random.Generator:
    """Separate streams for the decisions of one seed, so that one more draw in one never shifts the others."""
    return np.random.default_rng([seed, stream])


@contextmanager
def seeded_dropout(seed: int, device: torch.device) -> Iterator[None]:
    """Dropout layers draw from torch's global random state: it is set for the block and restored after it."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
