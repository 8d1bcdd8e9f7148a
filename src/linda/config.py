"""The settings that belong to a model and travel with it in `config.json`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from linda.errors import LindaError

MIXINGS = ("states", "attention")


@dataclass
class LindaConfig:
    """Defaults are the paper's (§4)."""

    base: dict[str, Any]  # the configuration of the encoder-decoder, as `transformers` writes it
    mixing: str = "states"  # how two texts are mixed: by adding states (Eq. 4), or by attention
    mask_token: str = "<mask>"
    mask_probability: float = 0.1  # of each whitespace word, drawn afresh every time a sentence is seen
    norm_penalty: float = 0.001  # λ of Eq. 6
    noise: float = 0.001  # standard deviation of the noise on every state, in training
    middle_noise: float = 0.0  # more of it at α = ½, as a share of the state's norm; none at the ends; 0 in the paper
    mirrored: bool = False  # each text of a pair is the only target of a mixture of its own; not so in the paper
    softmax_sample: int = 0  # pieces, beside the minibatch's own, that training's softmax is estimated from; 0: all
    max_length: int = 128  # the window in tokens; longer texts are mixed sentence by sentence
    # The map from the ratio asked for to the ratio mixed, as knots (asked, mixed); this one changes nothing.
    calibration: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, 0.0), (1.0, 1.0)])

    def __post_init__(self) -> None:
        for name in ("mask_probability", "norm_penalty", "noise", "middle_noise"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value < float("inf"):
                raise LindaError(f"{name} is {value!r}; it must be a number of 0 or more")
        if self.mixing not in MIXINGS:
            raise LindaError(f"mixing is {self.mixing!r}; it must be one of {', '.join(MIXINGS)}")
        if self.mask_probability > 1:
            raise LindaError(f"mask_probability is {self.mask_probability}; it must lie between 0 and 1")
        if self.softmax_sample < 0:
            raise LindaError(f"softmax_sample is {self.softmax_sample}; it must be a number of pieces, or 0 for all")
        if self.max_length < 4:
            raise LindaError(f"max_length is {self.max_length}; a window needs at least 4 tokens")
        self.calibration = _rising(self.calibration)

    def to_json(self) -> str:
        return json.dumps({"model_type": "linda", **asdict(self)}, indent=2) + "\n"

    @classmethod
    def from_json(cls, path: Path) -> LindaConfig:
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise LindaError(f"{path.parent} is not a LINDA model: {path.name} cannot be read ({error})") from error
        if not isinstance(stored, dict) or stored.pop("model_type", None) != "linda":
            raise LindaError(
                f"{path.parent} is not a LINDA model: its config.json does not say model_type 'linda' "
                "(start one from any encoder-decoder with `linda train --base`)"
            )
        known = {f.name for f in fields(cls)}
        unknown = sorted(set(stored) - known)
        if unknown or "base" not in stored:
            raise LindaError(f"{path}: unknown or missing settings ({', '.join(unknown) or 'base'})")
        return cls(**stored)


def _rising(calibration: Any) -> list[tuple[float, float]]:
    """The knots, checked: they come from a file that anyone may have written."""
    try:
        knots = [(float(asked), float(mixed)) for asked, mixed in calibration]
        rises = all(x0 <= x1 and y0 <= y1 for (x0, y0), (x1, y1) in pairwise(knots))
        if not (rises and knots[0] == (0, 0) and knots[-1] == (1, 1)):
            raise ValueError
    except (TypeError, ValueError, IndexError):
        raise LindaError("calibration must be pairs of numbers that rise from (0, 0) to (1, 1)") from None
    return knots
