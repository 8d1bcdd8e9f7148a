"""The settings of a training run, presets and the learning rate schedule."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from linda.config import LindaConfig
from linda.engines import NAMES
from linda.errors import MAX_SEED, LindaError, checked_integer, checked_kind, checked_number, shortened

# Settings of the model that training sets; the others are those of the base.
_OF_CONFIG = tuple(f.name for f in fields(LindaConfig) if f.name not in ("base", "mask_token", "calibration"))

# Minimum and maximum of each setting.
_INTEGERS = {
    "hold_out": (0, 10**6),
    "steps": (1, 10**9),
    "pairs": (1, 10**5),
    "texts": (0, 10**5),
    "accumulate": (1, 10**5),
    "candidates": (1, 1000),
    "warmup": (0, 10**9),
    "window": (2, 10**9),
    "seed": (0, MAX_SEED),
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
    """Settings of a training run. The defaults are those of the paper (§4); see also `PRESETS`.

    Attributes:
        corpus: Files of sentences, as in `linda train`; `FILE=0.25` makes a quarter of all sentences come from FILE.
        validation: File of held-out sentences; None holds out the first sentences of the corpus.
        hold_out: Number of sentences to hold out.
        base: Encoder-decoder to start from: a folder, a hub name or a LINDA model; "" is the embedded model.
        steps: Number of updates. The default is a million pairs in minibatches of 8.
        pairs: Pairs per minibatch, of all processes together (M in Eq. 5).
        accumulate: Minibatches per update.
        learning_rate: Learning rate after the warm-up.
        warmup: Updates of linear warm-up.
        decay: Final share of the run in which the learning rate falls to 0; 0 keeps it constant.
        weight_decay: Weight decay of AdamW.
        clip: Maximum gradient norm; 0 disables clipping.
        dropout: Dropout; None keeps that of the base.
        middles: Folders of middles to train on, in addition to a corpus or instead of one.
        pair_share: With middles: share of minibatches of corpus pairs, with the paper's objective.
        ends: Share of pairs of middles with a copy of one text as an extra target.
        text_share: With attention mixing: share of minibatches for language modelling, without a source text.
        texts: Sentences per minibatch for language modelling; 0 means twice `pairs`.
        candidates: With middles: candidate crossovers per ratio in the ranking loss; 1 disables it.
        config: Settings that are stored with the model: mixing, masking, noise …; its `base`, `mask_token` and
            `calibration` are not used.
        restyled: Share of sentences to change in style: lower case, no full stop, cut off.
        middle: The ratio is drawn from Beta(middle, middle); 1 is uniform.
        window: Size of the shuffle buffer, in sentences.
        precision: "auto", "no", "bf16" or "fp16".
        engine: Engine for the calibration of the trained model: "auto", "int8" or "torch".
        seed: Seed of masks, pairs, ratios, noise and dropout.
        validate_every: Updates between validations.
        checkpoint_every: Updates between checkpoints.

    Example:
        >>> settings = PRESETS["small"].changed(corpus=("sentences.txt.xz",), steps=5000, mask_probability=0.2)
        >>> train(settings, Path("my-model"))
    """

    corpus: tuple[str, ...] = ()
    validation: str | None = None
    hold_out: int = 100
    base: str = "facebook/bart-large"
    steps: int = 125_000
    pairs: int = 8
    accumulate: int = 1
    learning_rate: float = 1e-5
    warmup: int = 0
    decay: float = 0.0
    weight_decay: float = 0.0
    clip: float = 0.0
    dropout: float | None = None
    middles: tuple[str, ...] = ()
    pair_share: float = 0.2
    ends: float = 0.4
    text_share: float = 0.3
    texts: int = 0
    candidates: int = 5
    config: LindaConfig = field(default_factory=LindaConfig)
    restyled: float = 0.0
    middle: float = 1.0
    window: int = 2**16
    precision: str = "auto"
    engine: str = "torch"
    seed: int = 0
    validate_every: int = 1000
    checkpoint_every: int = 500

    def __post_init__(self) -> None:
        checked_kind(self.config, "config", LindaConfig, "a LindaConfig")
        for name, (minimum, maximum) in _INTEGERS.items():
            checked_integer(getattr(self, name), name, minimum, maximum)
        for name, limits in _NUMBERS.items():
            if getattr(self, name) is not None or name != "dropout":
                checked_number(getattr(self, name), name, *limits)
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
                f"pair_share is {self.pair_share} and text_share is {self.text_share}; their sum must be at most 1"
            )
        if self.middles and self.config.mixing != "attention":
            raise LindaError("training on middles needs attention mixing; give --mixing attention")

    def changed(self, **settings: Any) -> TrainingSettings:
        """Return a copy with other values, given by name; fields of `config`, such as `noise`, are also accepted."""
        of_config = {name: settings.pop(name) for name in _OF_CONFIG if name in settings}
        return replace(self, **{"config": replace(self.config, **of_config), **settings})

    def by_name(self) -> dict[str, Any]:
        """Return all settings by name, including those of `config`, as arguments of `changed`."""
        settings = asdict(self)
        config = settings.pop("config")
        return settings | {name: config[name] for name in _OF_CONFIG}

    def pairs_per_process(self, processes: int) -> int:
        """Return the number of pairs per minibatch of each process."""
        return self._per_process("pairs", processes)

    def texts_per_process(self, processes: int) -> int:
        """Return the number of sentences per language-modelling minibatch of each process; even, as they form pairs."""
        return self._per_process("texts", processes, unit=2) or 2 * self.pairs_per_process(processes)

    def _per_process(self, name: str, processes: int, unit: int = 1) -> int:
        size, step = getattr(self, name), unit * processes
        if size % step:
            raise LindaError(
                f"{name} is {size}, which {processes} processes cannot share equally; use a number of processes "
                f"that divides it, or a multiple of {step} {name} (--{name})"
            )
        return size // processes


PRESETS = {
    "paper": TrainingSettings(),
    # For the embedded model: a small base, large minibatches, a high rate, and text unlike Wikipedia.
    "small": TrainingSettings(
        base="",  # the embedded model
        steps=20_000,
        pairs=32,
        learning_rate=3e-4,
        warmup=100,
        decay=0.3,
        clip=1.0,
        dropout=0.0,
        config=LindaConfig(middle_noise=3.4, mirrored=True, softmax_sample=6000),
        restyled=0.35,
        engine="auto",
    ),
}


def learning_rate(step: int, settings: TrainingSettings) -> float:
    """Return the learning rate of update `step` (from 0): linear warm-up, constant, linear decay at the end."""
    warmup = min(1.0, (step + 1) / settings.warmup) if settings.warmup else 1.0
    decay_steps = settings.decay * settings.steps
    decay = min(1.0, (settings.steps - step) / decay_steps) if decay_steps else 1.0
    return settings.learning_rate * warmup * decay
