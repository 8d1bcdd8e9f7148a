"""Ctrl-C and termination, in one process or several."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch


class Stop:
    asked = False


@contextmanager
def stop_requests() -> Iterator[Stop]:
    """Handle Ctrl-C and termination: the run ends after the current update."""
    stop = Stop()

    def ask(number: int, frame: FrameType | None) -> None:
        stop.asked = True

    before = {s: signal.signal(s, ask) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def any_process(accelerator: Any, asked: bool) -> bool:
    """Whether any process was asked to stop: all must leave the loop together."""
    if accelerator.num_processes == 1:
        return asked
    return bool(accelerator.reduce(torch.tensor(float(asked), device=accelerator.device)).item())
