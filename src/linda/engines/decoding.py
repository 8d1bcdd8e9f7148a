"""All decoding settings, and their translation to arguments of `transformers`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from linda.errors import LindaError, checked_integer, checked_number, shortened

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from linda.model import LindaModel

# Each beam and each candidate is a sequence in the batch.
MAX_BEAMS = 128
MAX_CANDIDATES = 10_000
_MAX_TOKENS = 10**6

_FRAME_SETTINGS = (
    "decoder_start_token_id",
    "eos_token_id",
    "pad_token_id",
    "forced_bos_token_id",
    "max_position_embeddings",
)


@dataclass(frozen=True)
class Hypothesis:
    """One decoded text.

    `ids` includes the end marker but not the start marker. `score` is the sum of the tokens' log-probabilities
    (before temperature, top-p and top-k) divided by length ** length_penalty.
    """

    ids: list[int]
    score: float


@dataclass(frozen=True)
class Frame:
    """The special tokens and limits of a model's decoder."""

    start: int
    ends: tuple[int, ...]
    pad: int
    forced_first: int | None  # first token of every text, for models trained that way (mBART, BART)
    window: int | None  # number of decoder positions; None if unlimited (T5)

    @classmethod
    def of(cls, seq2seq: PreTrainedModel) -> Frame:
        """Read the special tokens and limits of a model."""
        settings = {name: getattr(seq2seq.config, name, None) for name in _FRAME_SETTINGS}
        generation = {name: getattr(seq2seq.generation_config, name, None) for name in _FRAME_SETTINGS}
        return cls.from_config(settings | {name: value for name, value in generation.items() if value is not None})

    @classmethod
    def from_config(cls, settings: Mapping[str, Any]) -> Frame:
        """Read them from a configuration in the format of `transformers`."""
        required = ("decoder_start_token_id", "eos_token_id", "pad_token_id")
        for name in required:
            if settings.get(name) is None:
                raise LindaError(f"the base model defines no {name}; set it in its config.json")
        start, end, pad = (settings[name] for name in required)
        return cls(
            start=start,
            ends=tuple(end) if isinstance(end, list) else (end,),
            pad=pad,
            forced_first=settings.get("forced_bos_token_id"),
            window=settings.get("max_position_embeddings"),
        )

    @property
    def prompt(self) -> list[int]:
        """The tokens that precede every text."""
        return [self.start] if self.forced_first is None else [self.start, self.forced_first]

    @property
    def banned(self) -> list[int]:
        """Tokens that are never generated: padding, unless it is also the end marker."""
        return [] if self.pad in self.ends else [self.pad]


@dataclass(frozen=True)
class Decoding:
    """Decoding settings: beam search (the default), greedy (`beams=1`) or sampling (`sample=True`).

    Sampling uses no beams. Temperature, top-k and top-p are applied in this order, and only when sampling. A text of
    L̃ mixed states may have at most max_ratio·L̃ + max_extra tokens, end marker included.

    Attributes:
        beams: Beam width.
        n: Number of candidates: the n best beams, or n independent samples.
        sample: Sample instead of searching.
        temperature: Softmax temperature of sampling.
        top_p: Nucleus sampling threshold.
        top_k: Sample from the k most likely tokens; 0 disables top-k.
        length_penalty: Exponent of the length that scores are divided by.
        no_repeat_ngram: Size of n-grams that must not occur twice; 0 disables the check.
        max_ratio: Maximum length relative to L̃ (see above).
        max_extra: Tokens allowed in addition (see above).
        withheld: Token ids that are never generated.

    Example:
        >>> Decoding(beams=8, n=3)  # as keyword arguments: linda.mix(a, b, beams=8, n=3)
        >>> Decoding(sample=True, top_p=0.9, temperature=0.8)
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

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Decoding:
        """Create settings from a mapping; an unknown name is a `LindaError`."""
        known = [field.name for field in fields(cls)]
        for name in settings:
            if name not in known:
                raise LindaError(f"there is no decoding setting {name!r}; choose from {', '.join(known)}")
        return cls(**settings)

    def __post_init__(self) -> None:
        checked_integer(self.beams, "beams", 1, MAX_BEAMS)
        checked_integer(self.n, "n", 1, MAX_CANDIDATES)
        checked_number(self.temperature, "temperature", 0.001, 1000)
        if not checked_number(self.top_p, "top_p", 0, 1):
            raise LindaError("top_p is 0; it must be above 0")
        checked_integer(self.top_k, "top_k", 0, _MAX_TOKENS)
        checked_number(self.length_penalty, "length_penalty", -100, 100)
        checked_integer(self.no_repeat_ngram, "no_repeat_ngram", 0, _MAX_TOKENS)
        checked_number(self.max_ratio, "max_ratio", 0.001, 1000)
        checked_integer(self.max_extra, "max_extra", 0, _MAX_TOKENS)
        are_tokens = isinstance(self.withheld, Sequence) and all(isinstance(token, int) for token in self.withheld)
        if not (are_tokens and all(token >= 0 for token in self.withheld)):
            raise LindaError(f"withheld is {shortened(self.withheld)}; it must be a list of token ids")
        if self.sample:
            return
        if self.n > self.beams:
            raise LindaError(f"n={self.n} is more than beams={self.beams}; raise beams, or use sampling")
        for name in ("temperature", "top_p", "top_k"):
            if getattr(self, name) != getattr(type(self), name):
                raise LindaError(f"{name}={getattr(self, name)} applies only to sampling; add sample=True (--sample)")

    @property
    def paths(self) -> int:
        """Number of sequences decoded in parallel for one row."""
        return self.n if self.sample else self.beams

    def limit(self, length: int, window: int | None) -> int:
        """Return the maximum number of tokens decoded from `length` mixed states, end marker included."""
        limit = max(3, math.ceil(self.max_ratio * length) + self.max_extra)
        return limit if window is None else min(limit, window)

    def generate_kwargs(self, seq2seq: PreTrainedModel, length: int) -> dict[str, Any]:
        """Return the equivalent arguments of `generate` in `transformers`; length: mixed states of the longest row.

        Every argument is set explicitly, so that the generation settings of a checkpoint have no effect. Padding is
        suppressed and the distribution renormalized; a text that reaches its limit ends with the end marker.
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
    """Generate token ids (B, T) with `transformers` from mixed states (B, L̃, d) and mask (B, L̃).

    This is the reference that the engines are tested against. Further arguments go to `generate`; 4 beams by default.
    """
    import torch

    from linda.model.linda_model import as_encoder_output

    # The limit grows with L̃, so the batch uses that of its longest row.
    defaults = Decoding().generate_kwargs(model.seq2seq, int(mask.sum(1).max()))
    with torch.inference_mode():
        return model.seq2seq.generate(
            encoder_outputs=as_encoder_output(states), attention_mask=mask, **defaults | settings
        )
