"""The settings of a training run, the presets and the learning rate of every update."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from linda.config import LindaConfig
from linda.engines import NAMES
from linda.errors import MOST_SEED, LindaError, checked_integer, checked_number, shortened

# Minimum and maximum of each setting.
_INTEGERS = {
    "hold_out": (0, 10**6),
    "steps": (1, 10**9),
    "pairs": (1, 10**5),
    "accumulate": (1, 10**5),
    "candidates": (1, 1000),
    "warmup": (0, 10**9),
    "window": (2, 10**9),
    "seed": (0, MOST_SEED),
    "validate_every": (1, 10**9),
    "checkpoint_every": (1, 10**9),
}
_NUMBERS = {
    "learning_rate": (0, 1),
    "decay": (0, 1),
    "weight_decay": (0, 1),
    "clip": (0, 10**6),
    "dropout": (0, 1),
    "restyled": (0, 1),
    "pair_share": (0, 1),
    "text_share": (0, 1),
    "ends": (0, 1),
    "middle": (0, 1000),
}


@dataclass(frozen=True)
class TrainingSettings:
    """Settings that determine the result of a run. The defaults are those of the paper (§4); see also `PRESETS`."""

    corpus: tuple[str, ...] = ()  # sources as `Corpus.parse` reads them
    validation: str | None = None  # a file of held-out sentences; without one, the first of the corpus are held out
    hold_out: int = 100
    base: str = "facebook/bart-large"
    steps: int = 125_000  # a million pairs in minibatches of 8
    pairs: int = 8  # M, pairs in a minibatch, of all processes together
    accumulate: int = 1  # minibatches in an update
    learning_rate: float = 1e-5
    warmup: int = 0  # updates in which the rate increases from 0
    decay: float = 0.0  # share of the run, at its end, in which the rate decays to 0; 0 for a constant rate
    weight_decay: float = 0.0
    clip: float = 0.0  # maximum norm of the gradient; 0 for no clipping
    dropout: float | None = None  # None: that of the base
    middles: tuple[str, ...] = ()  # folders of middles to train on, in addition to or instead of a corpus
    pair_share: float = 0.2  # with middles: share of minibatches of corpus pairs, the paper's objective
    ends: float = 0.4  # share of pairs of middles that also get a copy of one text as a target
    text_share: float = 0.3  # attention mixing: share of minibatches of sentences that are read without a source
    candidates: int = 5  # with middles: crossovers per ratio that the decoder learns to choose from; 1: no choice
    # The next eight are part of the model's configuration.
    mixing: str = LindaConfig.mixing
    mask_probability: float = LindaConfig.mask_probability
    norm_penalty: float = LindaConfig.norm_penalty
    noise: float = LindaConfig.noise
    middle_noise: float = LindaConfig.middle_noise
    mirrored: bool = LindaConfig.mirrored
    softmax_sample: int = LindaConfig.softmax_sample
    max_length: int = LindaConfig.max_length
    restyled: float = 0.0
    middle: float = 1.0
    window: int = 2**16
    precision: str = "auto"  # auto, no, bf16 or fp16
    engine: str = "torch"  # computes the trained model while it is calibrated: auto, int8 or torch
    seed: int = 0
    validate_every: int = 1000
    checkpoint_every: int = 500

    def __post_init__(self) -> None:
        for name, (least, most) in _INTEGERS.items():
            checked_integer(getattr(self, name), name, least, most)
        for name, (lowest, highest) in _NUMBERS.items():
            if getattr(self, name) is not None or name != "dropout":
                checked_number(getattr(self, name), name, lowest, highest)
        for name in ("learning_rate", "middle"):
            if not getattr(self, name) > 0:
                raise LindaError(f"{name} is {getattr(self, name)}; it must be above 0")
        if self.dropout == 1:
            raise LindaError("dropout is 1; it must be below 1")
        if not isinstance(self.base, str):
            raise LindaError(f"base is {shortened(self.base)}; it must be a folder or a name on the hub")
        if self.validation is not None and not isinstance(self.validation, str):
            raise LindaError(f"validation is {shortened(self.validation)}; it must be the name of a file")
        for name in ("corpus", "middles"):
            sources = getattr(self, name)
            if isinstance(sources, str) or not all(isinstance(source, str) for source in sources):
                raise LindaError(f"{name} is {shortened(sources)}; it must be a list of files")
        if self.precision not in {"auto", "no", "bf16", "fp16"}:
            raise LindaError(f"precision is {shortened(self.precision)}; it must be auto, no, bf16 or fp16")
        if self.engine not in ("auto", *NAMES):
            raise LindaError(f"engine is {shortened(self.engine)}; it must be one of auto, {', '.join(NAMES)}")
        if self.pair_share + self.text_share > 1:
            raise LindaError(
                f"pair_share is {self.pair_share} and text_share is {self.text_share}; together they must not exceed 1"
            )
        if self.middles and self.mixing != "attention":
            raise LindaError("training on middles needs attention mixing: give --mixing attention")
        LindaConfig(base={}, **self.of_the_model())  # checks them before hours of work

    def pairs_per_process(self, processes: int) -> int:
        """A minibatch has the same size however many processes share it."""
        if self.pairs % processes:
            raise LindaError(
                f"pairs is {self.pairs}, which {processes} processes cannot share equally; use a number of processes "
                f"that divides it, or a multiple of {processes} pairs (--pairs)"
            )
        return self.pairs // processes

    def of_the_model(self) -> dict[str, Any]:
        """Return the settings that are part of the model's configuration."""
        shared = {field.name for field in fields(LindaConfig)} - {"base"}
        return {name: value for name, value in asdict(self).items() if name in shared}


PRESETS = {
    "paper": TrainingSettings(),
    # The embedded model's: a small base, large minibatches, a high rate, and text unlike Wikipedia.
    "small": TrainingSettings(
        base="",  # the embedded model
        steps=20_000,
        pairs=32,
        learning_rate=3e-4,
        warmup=100,
        decay=0.3,
        clip=1.0,
        dropout=0.0,
        mask_probability=0.1,
        middle_noise=3.4,
        mirrored=True,
        softmax_sample=6000,
        restyled=0.35,
        engine="auto",
    ),
}


def learning_rate(step: int, settings: TrainingSettings) -> float:
    """Return the rate of update `step` (from 0): linear warm-up, constant, linear decay at the end."""
    rise = min(1.0, (step + 1) / settings.warmup) if settings.warmup else 1.0
    falling = settings.decay * settings.steps
    fall = min(1.0, (settings.steps - step) / falling) if falling else 1.0
    return settings.learning_rate * rise * fall
