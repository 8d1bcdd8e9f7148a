"""All that decides what a training run computes: its settings, the presets and the rate of every update."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from linda.config import LindaConfig
from linda.engines import NAMES
from linda.errors import MOST_SEED, LindaError, checked_integer, checked_number, shortened

# The least and the largest value that makes sense.
_INTEGERS = {
    "hold_out": (0, 10**6),
    "steps": (1, 10**9),
    "pairs": (1, 10**5),
    "accumulate": (1, 10**5),
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
    "ends": (0, 1),
    "middle": (0, 1000),
}


@dataclass(frozen=True)
class TrainingSettings:
    """All that decides what a run computes. Defaults are the paper's (§4); presets below."""

    corpus: tuple[str, ...] = ()  # sources as `Corpus.parse` reads them
    validation: str | None = None  # a file of held-out sentences; without one, the first of the corpus are held out
    hold_out: int = 100
    base: str = "facebook/bart-large"
    steps: int = 125_000  # a million pairs in minibatches of 8
    pairs: int = 8  # M, pairs in a minibatch, of all processes together
    accumulate: int = 1  # minibatches in an update
    learning_rate: float = 1e-5
    warmup: int = 0  # updates in which the rate rises from 0
    decay: float = 0.0  # share of the run, at its end, in which the rate falls to 0; 0 is a fixed rate
    weight_decay: float = 0.0
    clip: float = 0.0  # largest norm of the gradient; 0 clips nothing
    dropout: float | None = None  # None: as the base has it
    middles: tuple[str, ...] = ()  # folders of middles to learn from, beside or in place of a corpus
    pair_share: float = 0.2  # of the minibatches, with middles: pairs of the corpus, the paper's objective
    ends: float = 0.4  # share of pairs of middles that also get a copy of one text as a target
    # Eight that the model keeps in its own configuration.
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
            raise LindaError("dropout is 1, which leaves nothing; it must be below 1")
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
        if self.middles and self.mixing != "attention":
            raise LindaError("middles are learnt by mixing attention: give --mixing attention")
        LindaConfig(base={}, **self.of_the_model())  # which checks them, before hours of work

    def pairs_per_process(self, processes: int) -> int:
        """A minibatch has the same size however many processes share it."""
        if self.pairs % processes:
            raise LindaError(
                f"pairs is {self.pairs}, which {processes} processes cannot share equally; use a number of processes "
                f"that divides it, or a multiple of {processes} pairs (--pairs)"
            )
        return self.pairs // processes

    def of_the_model(self) -> dict[str, Any]:
        """The settings that the model keeps in its own configuration."""
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
    """The rate of update `step` (from 0): rises over `warmup`, holds, falls over the last `decay` of the run."""
    rise = min(1.0, (step + 1) / settings.warmup) if settings.warmup else 1.0
    falling = settings.decay * settings.steps
    fall = min(1.0, (settings.steps - step) / falling) if falling else 1.0
    return settings.learning_rate * rise * fall
