"""Ctrl-C and termination, in one process or several."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch


class Stop:
    """Whether the run was asked to stop."""

    requested = False


@contextmanager
def stop_requests() -> Iterator[Stop]:
    """Handle Ctrl-C and termination, so that the run can stop after the current update."""
    stop = Stop()

    def request(number: int, frame: FrameType | None) -> None:
        stop.requested = True

    before = {s: signal.signal(s, request) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def any_process(accelerator: Any, requested: bool) -> bool:
    """Whether any process was asked to stop: all processes must leave the loop together."""
    if accelerator.num_processes == 1:
        return requested
    return bool(accelerator.reduce(torch.tensor(float(requested), device=accelerator.device)).item())
