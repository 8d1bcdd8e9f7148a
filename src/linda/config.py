"""The settings of a model, stored with it in `config.json`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from linda.errors import LindaError, checked_integer, checked_number, checked_text, shortened
from linda.files.jsonfile import read_json_object

_MAX_SETTING = 10**6  # larger values can only come from a damaged file

MIXINGS = ("states", "attention")


@dataclass
class LindaConfig:
    """Settings of a model. The defaults are those of the paper (§4).

    Attributes:
        base: Configuration of the encoder-decoder, as `transformers` writes it.
        mixing: How two texts are mixed: `states` interpolates the encoder states (Eq. 4), `attention` lets the decoder
            attend to both texts.
        mask_token: Token that replaces masked words.
        mask_probability: Probability of masking a word, drawn again every time a sentence is seen.
        norm_penalty: Weight λ of the squared norms of the states (Eq. 6).
        noise: Standard deviation of the Gaussian noise added to the states in training.
        middle_noise: Additional noise at α = ½, relative to the norm of the state; it falls to 0 at the ends. 0 in the
            paper.
        mirrored: Mix each pair in both orders, with the first text as the only target. False in the paper.
        softmax_sample: Size of the sampled softmax in training: number of tokens besides those of the minibatch; 0 for
            the full softmax.
        max_length: Window in tokens; longer texts are mixed sentence by sentence.
        calibration: Map from the requested ratio to the mixed ratio: knots (requested, mixed).

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
            raise LindaError(f"base is {shortened(self.base)}; it must be the configuration of an encoder-decoder")
        checked_text(self.mask_token, "mask_token")
        if not isinstance(self.mirrored, bool):
            raise LindaError(f"mirrored is {shortened(self.mirrored)}; it must be true or false")
        if self.mixing not in MIXINGS:
            raise LindaError(f"mixing is {shortened(self.mixing)}; it must be one of {', '.join(MIXINGS)}")
        checked_number(self.mask_probability, "mask_probability", 0, 1)
        for name in ("norm_penalty", "noise", "middle_noise"):
            checked_number(getattr(self, name), name, 0, _MAX_SETTING)
        checked_integer(self.softmax_sample, "softmax_sample", 0, _MAX_SETTING)
        checked_integer(self.max_length, "max_length", 4, _MAX_SETTING)
        self.calibration = _checked_knots(self.calibration)

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


def _checked_knots(calibration: Any) -> list[tuple[float, float]]:
    try:
        knots = [(float(requested), float(mixed)) for requested, mixed in calibration]
        is_monotone = all(x0 <= x1 and y0 <= y1 for (x0, y0), (x1, y1) in pairwise(knots))
        if not (is_monotone and knots[0] == (0, 0) and knots[-1] == (1, 1)):
            raise ValueError
    except (TypeError, ValueError, IndexError, OverflowError):
        raise LindaError(
            f"calibration is {shortened(calibration)}; it must be pairs of numbers that increase from (0, 0) to (1, 1)"
        ) from None
    return knots
