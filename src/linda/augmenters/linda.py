"""LINDA itself: the text between two texts."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from linda.interpolation import Interpolator, engine_for


class Linda:
    """New texts by interpolation; `decoding` holds any field of `linda.engines.decoding.Decoding`."""

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
        """model: an Interpolator, a folder, or None for the embedded one. raw: the ratio uncalibrated."""
        if not isinstance(model, Interpolator):
            model = Interpolator.from_pretrained(model, engine=engine)
        self.interpolator = model
        self._settings = {"raw": raw, **decoding}

    @staticmethod
    def engine_for(model: Interpolator | str | Path | None, engine: str) -> str:
        """The engine that would write the texts."""
        return engine_for(model, engine)

    @cached_property
    def sampling(self) -> "Linda":
        """The same model and ratio, with random draws: another text for every seed."""
        return Linda(self.interpolator, **{**self._settings, "beams": 1, "sample": True})

    def texts(
        self, a: Sequence[str], b: Sequence[str] | None, alpha: Sequence[float] | None, seeds: Sequence[int]
    ) -> list[str]:
        if b is None or alpha is None:
            raise TypeError("LINDA writes the text between two texts: every row needs a partner and a ratio")
        rows = zip(a, b, alpha, seeds, strict=True)
        return [candidates[0] for candidates in self.interpolator.mix_stream(rows, **self._settings)]
