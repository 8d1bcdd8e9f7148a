"""Every decoding setting in one place, and what it means to `transformers`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from linda.errors import LindaError, shortened

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from linda.model import LindaModel

# Every beam and every candidate is a text that is computed beside the others.
MOST_BEAMS = 128
MOST_CANDIDATES = 10_000
_MOST_TOKENS = 10**6

_FRAME_SETTINGS = (
    "decoder_start_token_id",
    "eos_token_id",
    "pad_token_id",
    "forced_bos_token_id",
    "max_position_embeddings",
)


@dataclass(frozen=True)
class Hypothesis:
    """One text that a decoder wrote.

    `ids` holds the end marker and not the start marker. `score` is the sum of the tokens' log-probabilities
    (of the model itself, before temperature, top-p and top-k) divided by length ** length_penalty.
    """

    ids: list[int]
    score: float


@dataclass(frozen=True)
class Frame:
    """What a model's decoder demands around a text, whatever family it is of."""

    start: int
    ends: tuple[int, ...]
    pad: int
    forced_first: int | None  # the first token of every text, where the model was trained so (mBART, BART)
    window: int | None  # positions that the decoder has; None where it has no limit (T5)

    @classmethod
    def of(cls, seq2seq: PreTrainedModel) -> Frame:
        settings = {name: getattr(seq2seq.config, name, None) for name in _FRAME_SETTINGS}
        generation = {name: getattr(seq2seq.generation_config, name, None) for name in _FRAME_SETTINGS}
        return cls.from_config(settings | {name: value for name, value in generation.items() if value is not None})

    @classmethod
    def from_config(cls, settings: Mapping[str, Any]) -> Frame:
        """settings: the model's configuration, as `transformers` writes it."""
        needed = ("decoder_start_token_id", "eos_token_id", "pad_token_id")
        for name in needed:
            if settings.get(name) is None:
                raise LindaError(f"the base model has no {name}: set it in its config")
        start, end, pad = (settings[name] for name in needed)
        return cls(
            start=start,
            ends=tuple(end) if isinstance(end, list) else (end,),
            pad=pad,
            forced_first=settings.get("forced_bos_token_id"),
            window=settings.get("max_position_embeddings"),
        )

    @property
    def banned(self) -> list[int]:
        """Tokens that are never written: padding, unless it is the end marker too."""
        return [] if self.pad in self.ends else [self.pad]


@dataclass(frozen=True)
class Decoding:
    """How a text is chosen: beam search (the default), greedy (`beams=1`) or sampling (`sample=True`).

    Sampling takes no beams; temperature, top-k and top-p act in this order, and only when sampling.
    `n` asks for the n best of the beams, or for n independent samples.
    A text of L̃ mixed states may become at most max_ratio·L̃ + max_extra tokens long, end marker included.
    `withheld` are token ids that are not written.
    """

    beams: int = 4
    sample: bool = False
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    n: int = 1
    length_penalty: float = 1.0
    no_repeat_ngram: int = 0
    max_ratio: float = 1.5
    max_extra: int = 8
    withheld: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self._check_integer("beams", 1, MOST_BEAMS)
        self._check_integer("n", 1, MOST_CANDIDATES)
        self._check_number("temperature", 0.001, 1000)
        self._check("top_p", 0 < self._number("top_p") <= 1, "a number above 0 and up to 1")
        self._check_integer("top_k", 0, _MOST_TOKENS)
        self._check_number("length_penalty", -100, 100)
        self._check_integer("no_repeat_ngram", 0, _MOST_TOKENS)
        self._check_number("max_ratio", 0.001, 1000)
        self._check_integer("max_extra", 0, _MOST_TOKENS)
        if self.sample:
            return
        if self.n > self.beams:
            raise LindaError(f"n={self.n} is more than beams={self.beams}: raise beams, or sample")
        for name in ("temperature", "top_p", "top_k"):
            if getattr(self, name) != getattr(type(self), name):
                raise LindaError(f"{name}={getattr(self, name)} acts only when sampling: add sample=True (--sample)")

    def _check(self, name: str, fits: bool, wanted: str) -> None:
        if not fits:
            raise LindaError(f"{name}={shortened(getattr(self, name))} does not work: give {wanted}")

    def _check_integer(self, name: str, least: int, most: int) -> None:
        value = getattr(self, name)
        is_integer = hasattr(value, "__index__") and not isinstance(value, bool)
        self._check(name, is_integer and least <= value <= most, f"a whole number from {least} to {most:,}")

    def _check_number(self, name: str, least: float, most: float) -> None:
        self._check(name, least <= self._number(name) <= most, f"a number from {least:g} to {most:g}")

    def _number(self, name: str) -> float:
        value = getattr(self, name)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan

    @property
    def paths(self) -> int:
        """Texts that are written side by side for one row: what a batch must have room for."""
        return self.n if self.sample else self.beams

    def limit(self, length: int, window: int | None) -> int:
        """The most tokens that `length` mixed states may become, end marker included."""
        limit = max(3, math.ceil(self.max_ratio * length) + self.max_extra)
        return limit if window is None else min(limit, window)

    def generate_kwargs(self, seq2seq: PreTrainedModel, length: int) -> dict[str, Any]:
        """The equal arguments of `transformers`' generate, for a batch whose longest row has `length` mixed states.

        Every one is said, so that a checkpoint's own settings do not leak in. Padding is out of the distribution
        (suppressed, then renormalized), and a text that reaches its limit ends there with the end marker.
        """
        frame = Frame.of(seq2seq)
        warpers: dict[str, Any] = {"temperature": None, "top_p": None, "top_k": None}
        if self.sample:
            warpers = {"temperature": self.temperature, "top_p": self.top_p, "top_k": self.top_k}
        return {
            "num_beams": 1 if self.sample else self.beams,
            "do_sample": self.sample,
            **warpers,
            "num_return_sequences": self.n,
            "length_penalty": self.length_penalty,
            "early_stopping": False,
            "no_repeat_ngram_size": self.no_repeat_ngram,
            "repetition_penalty": 1.0,
            "max_length": self.limit(length, frame.window) + 1,  # the start marker counts
            "max_new_tokens": None,
            "min_length": 0,
            "min_new_tokens": None,
            "bad_words_ids": None,
            "suppress_tokens": [*frame.banned, *self.withheld] or None,
            "renormalize_logits": True,
            "forced_bos_token_id": frame.forced_first,
            "forced_eos_token_id": frame.ends[0],
            "decoder_start_token_id": frame.start,
            "eos_token_id": list(frame.ends),
            "pad_token_id": frame.pad,
            "use_cache": True,
        }


def generate(model: LindaModel, states: Tensor, mask: Tensor, **settings: Any) -> Tensor:
    """Token ids (B, T) by `transformers`' own `generate` from mixed states (B, L̃, d) and mask (B, L̃).

    The reference that the engines are held to. Any argument of `generate` is passed on; 4 beams by default.
    """
    import torch

    from linda.model.linda_model import as_encoder_output

    # The length limit grows with L̃: the longest row's serves the whole batch.
    defaults = Decoding().generate_kwargs(model.seq2seq, int(mask.sum(1).max()))
    with torch.inference_mode():
        return model.seq2seq.generate(
            encoder_outputs=as_encoder_output(states), attention_mask=mask, **defaults | settings
        )
