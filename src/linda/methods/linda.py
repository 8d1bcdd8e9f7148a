"""LINDA: the text between two texts."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from linda.interpolation import Interpolator, engine_for
from linda.methods import AugmentationMethod


class Linda(AugmentationMethod):
    """Write new texts by interpolation.

    Args:
        model: An `Interpolator`, the folder of a LINDA model, or None for the embedded model.
        raw: Use the ratio as given, without calibration, as in the paper.
        engine: Engine that runs the model if it is given by name: auto, int8 or torch.
        **decoding: Any field of `linda.engines.decoding.Decoding`.

    Example:
        Linda(beams=2).texts(["Who won the race?"], ["Who wrote this book?"], [0.5], [0])
    """

    name = "linda"
    needs_partner = True

    def __init__(
        self,
        model: Interpolator | str | Path | None = None,
        *,
        raw: bool = False,
        engine: str = "auto",
        **decoding: Any,
    ) -> None:
        if not isinstance(model, Interpolator):
            model = Interpolator.from_pretrained(model, engine=engine)
        self.interpolator = model
        self._settings = {"raw": raw, **decoding}

    @staticmethod
    def engine_for(model: Interpolator | str | Path | None, engine: str) -> str:
        return engine_for(model, engine)

    @cached_property
    def sampling(self) -> "Linda":
        """The same model and ratio, with sampling: each seed gives a different text."""
        return Linda(self.interpolator, **{**self._settings, "beams": 1, "sample": True})

    def texts(
        self, a: Sequence[str], b: Sequence[str] | None, alpha: Sequence[float] | None, seeds: Sequence[int]
    ) -> list[str]:
        if b is None or alpha is None:
            raise TypeError("LINDA needs a partner and a ratio for each row")
        rows = zip(a, b, alpha, seeds, strict=True)
        return [candidates[0] for candidates in self.interpolator.mix_stream(rows, **self._settings)]
