"""One file per way to decode, behind one call: mixed states and mask in, token ids out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from linda.errors import LindaError

if TYPE_CHECKING:
    import torch

    from linda.decoding import Decoding, Hypothesis
    from linda.model import LindaModel

# From the fastest to the slowest: "auto" takes the first that runs here.
NAMES = ("torch",)


class Engine(Protocol):
    name: str

    def decode(
        self, states: torch.Tensor, mask: torch.Tensor, decoding: Decoding, seeds: Sequence[int]
    ) -> list[list[Hypothesis]]:
        """states (B, L̃, d) and mask (B, L̃) become `decoding.n` texts per row, the best first.

        A row's texts depend on its states and its seed alone, never on the other rows. Samples come in the
        order in which they are drawn: the first one is the same whatever n.
        """
        ...


def load(name: str, model: LindaModel) -> Engine:
    """The engine of this name over the model's decoder; "auto" is the fastest one installed."""
    if name not in ("auto", *NAMES):
        raise LindaError(f"engine {name!r} is not known: take one of auto, {', '.join(NAMES)}")
    from linda.engines.torch_engine import TorchEngine

    return TorchEngine(model)


def batches(lengths: Sequence[int], batch_tokens: int, paths: int = 1) -> list[list[int]]:
    """Rows grouped by length, longest first, so that rows × paths × longest length stays within batch_tokens.

    `paths` is the number of texts written side by side for one row (`Decoding.paths`). A row that alone is over
    the budget makes a batch of its own. The longest come first: memory that is too small shows at once.
    """
    if batch_tokens < 1:
        raise LindaError(f"batch_tokens={batch_tokens} does not work: give a whole number from 1")
    groups: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        room = batch_tokens // (max(1, lengths[groups[-1][0]]) * paths) if groups else 0
        if groups and len(groups[-1]) < room:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups
