"""The settings of a model, stored with it in `config.json`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from linda.errors import LindaError, checked_integer, checked_number, checked_text, shortened
from linda.files.jsonfile import read_json_object

_LARGEST_SIZE = 10**6
_LARGEST_NUMBER = 10**6

MIXINGS = ("states", "attention")


@dataclass
class LindaConfig:
    """Settings of a model. The defaults are those of the paper (§4).

    Attributes:
        base: Configuration of the encoder-decoder, as `transformers` writes it.
        mixing: How two texts are mixed: `states` are added (Eq. 4), or `attention` is divided between both texts.
        mask_token: The token that masked words are replaced by.
        mask_probability: Probability of masking a word, drawn again every time a sentence is seen.
        norm_penalty: λ of Eq. 6.
        noise: Standard deviation of the Gaussian noise on every state, in training only.
        middle_noise: Additional noise at α = ½, relative to the norm of the state; none at the ends. 0 in the paper.
        mirrored: Each text of a pair is the only target of its own mixture. False in the paper.
        softmax_sample: Number of tokens, besides those of the minibatch, that the softmax is estimated from in
            training; 0 for all.
        max_length: Window in tokens; longer texts are mixed sentence by sentence.
        calibration: Map from the requested ratio to the ratio that is mixed, as knots (requested, mixed).

    Example:
        >>> LindaConfig.from_json(Path("my-model/config.json")).mixing
        'attention'
        >>> LindaConfig(base={"max_position_embeddings": 64}).window
        64
    """

    base: dict[str, Any] = field(default_factory=dict)
    mixing: str = "states"
    mask_token: str = "<mask>"
    mask_probability: float = 0.1
    norm_penalty: float = 0.001
    noise: float = 0.001
    middle_noise: float = 0.0
    mirrored: bool = False
    softmax_sample: int = 0
    max_length: int = 128
    calibration: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, 0.0), (1.0, 1.0)])

    def __post_init__(self) -> None:
        if not isinstance(self.base, dict):
            raise LindaError(f"base is {shortened(self.base)}; it must be the settings of an encoder-decoder")
        checked_text(self.mask_token, "mask_token")
        if not isinstance(self.mirrored, bool):
            raise LindaError(f"mirrored is {shortened(self.mirrored)}; it must be true or false")
        if self.mixing not in MIXINGS:
            raise LindaError(f"mixing is {shortened(self.mixing)}; it must be one of {', '.join(MIXINGS)}")
        checked_number(self.mask_probability, "mask_probability", 0, 1)
        for name in ("norm_penalty", "noise", "middle_noise"):
            checked_number(getattr(self, name), name, 0, _LARGEST_NUMBER)
        checked_integer(self.softmax_sample, "softmax_sample", 0, _LARGEST_SIZE)
        checked_integer(self.max_length, "max_length", 4, _LARGEST_SIZE)
        self.calibration = _rising(self.calibration)

    @property
    def window(self) -> int:
        """Maximum number of tokens of a text: the base may have fewer positions than `max_length`."""
        positions = self.base.get("max_position_embeddings")
        return self.max_length if positions is None else min(self.max_length, positions)

    def to_json(self) -> str:
        """Format the settings as JSON."""
        return json.dumps({"model_type": "linda", **asdict(self)}, indent=2) + "\n"

    @classmethod
    def from_json(cls, path: Path) -> LindaConfig:
        """Read and check the settings in a `config.json`."""
        try:
            stored = read_json_object(path)
        except LindaError as error:
            raise LindaError(f"{path.parent} is not a LINDA model: {error}") from error
        if stored.pop("model_type", None) != "linda":
            raise LindaError(
                f"{path.parent} is not a LINDA model: its config.json has no model_type 'linda' "
                "(create a model from any encoder-decoder with `linda train --base`)"
            )
        known = {f.name for f in fields(cls)}
        unknown = sorted(set(stored) - known)
        if unknown or "base" not in stored:
            names = shortened(", ".join(unknown) or "base")
            raise LindaError(f"{path}: unknown or missing settings ({names}); save the model again")
        try:
            return cls(**stored)
        except LindaError as error:
            raise LindaError(f"{path}: {error}") from error


def _rising(calibration: Any) -> list[tuple[float, float]]:
    """Check the knots, because they come from a file."""
    try:
        knots = [(float(asked), float(mixed)) for asked, mixed in calibration]
        rises = all(x0 <= x1 and y0 <= y1 for (x0, y0), (x1, y1) in pairwise(knots))
        if not (rises and knots[0] == (0, 0) and knots[-1] == (1, 1)):
            raise ValueError
    except (TypeError, ValueError, IndexError, OverflowError):
        raise LindaError(
            f"calibration is {shortened(calibration)}; it must be pairs of numbers that increase from (0, 0) to (1, 1)"
        ) from None
    return knots
