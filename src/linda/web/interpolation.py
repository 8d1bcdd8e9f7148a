"""Everything that the server needs from `linda.interpolation`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

from linda.engines.decoding import Decoding, Hypothesis
from linda.interpolation import Interpolator
from linda.interpolation.rows import Row, with_seed
from linda.interpolation.rows import checked_rows as checked_rows
from linda.web.batcher import Batcher, Candidates, Settings

# Tokens of encoded texts to keep, because the same text is often requested with other partners and ratios: 32 MB if a
# state has 512 numbers.
_CACHED_TOKENS = 2**14

_SCORED_AT_ONCE = 32  # rows


class ScoredInterpolator:
    """An interpolator that also returns the decoder's score of each text. Not thread-safe."""

    def __init__(self, interpolator: Interpolator) -> None:
        self._scores = _ScoreKeeper(interpolator)
        self.plain = interpolator
        self._scored = Interpolator(
            interpolator.config,
            interpolator.tokens,
            interpolator.converter,
            self._scores,
            interpolator.attention_mixing,
        )
        self._encoded = self._scored.encoded_texts(
            batch_tokens=interpolator.engine.batch_tokens, max_tokens=_CACHED_TOKENS
        )

    @classmethod
    def load(cls, model: str | None, engine: str) -> ScoredInterpolator:
        return cls(Interpolator.from_pretrained(model, engine=engine))

    @property
    def engine_name(self) -> str:
        return self.plain.engine.name

    def mix(
        self, rows: Sequence[Row], settings: dict[str, Any], on_progress: Callable[[int], object]
    ) -> Iterator[Candidates]:
        """Yield the texts of each row with their scores, if `settings["scores"]`, in order.

        Crossovers, and the texts themselves at the ends, are read once more to score them. The scores of decoded texts
        are looked up by the seed and the text of a row. Beam search ignores seeds, so they are replaced by row numbers.
        """
        settings = {**settings, "on_progress": on_progress, "encoded": self._encoded}
        if not settings.pop("scores"):
            for texts in self.plain.mix_stream(rows, **settings):
                yield [(text, None) for text in texts]
        elif self.plain.attention_mixing is not None and not (settings["raw"] or settings["copies"]):
            stream = self.plain.mix_stream(rows, **settings)
            while group := list(islice(stream, _SCORED_AT_ONCE)):
                scores = iter(self.plain.scores([text for texts in group for text in texts]))
                for texts in group:
                    yield [(text, _finite(next(scores))) for text in texts]
        else:
            self._scores.clear()
            if not settings["sample"]:
                rows = [with_seed(row, number) for number, row in enumerate(rows)]
            for row, texts in zip(rows, self._scored.mix_stream(rows, **settings), strict=True):
                yield [(text, self._scores.find(row[-1], text)) for text in texts]


class _ScoreKeeper:
    """An engine that records the score of every text."""

    def __init__(self, interpolator: Interpolator) -> None:
        self._engine = interpolator.engine
        self._tokens = interpolator.tokens
        self._scores: dict[tuple[int, str], float | None] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def clear(self) -> None:
        self._scores.clear()

    def find(self, seed: int, text: str) -> float | None:
        """Return the score; None for texts of several parts, ambiguous texts and scores that are not finite."""
        return _finite(self._scores.get((seed, text)))

    def decode(
        self, states: Any, mask: Any, decoding: Decoding, seeds: Sequence[int], *more: Any, **named: Any
    ) -> list[list[Hypothesis]]:
        found = self._engine.decode(states, mask, decoding, seeds, *more, **named)
        for seed, hypotheses in zip(seeds, found, strict=True):
            texts = self._tokens.texts([hypothesis.ids for hypothesis in hypotheses])
            for text, hypothesis in zip(texts, hypotheses, strict=True):
                known = self._scores.setdefault((seed, text), hypothesis.score)
                if known != hypothesis.score:
                    self._scores[seed, text] = None
        return found


def _finite(score: float | None) -> float | None:
    return score if score is not None and math.isfinite(score) else None


def checked_settings(
    *, raw: bool = False, copies: bool | None = None, scores: bool = False, **decoding: Any
) -> Settings:
    """Return all settings of `ScoredInterpolator.mix` in a canonical form, so that equal ones compare equal."""
    settings = {"raw": raw, "copies": copies, "scores": scores, **asdict(Decoding.of(decoding))}
    return tuple(sorted(settings.items()))


class SharedInterpolator(Interpolator):
    """The server's model for callers on other threads: their rows join the shared micro-batches."""

    def __init__(self, interpolator: Interpolator, batcher: Batcher) -> None:
        super().__init__(
            interpolator.config,
            interpolator.tokens,
            interpolator.converter,
            interpolator.engine,
            interpolator.attention_mixing,
        )
        self._batcher = batcher

    def mix_stream(self, rows: Iterable[Row], **settings: Any) -> Iterator[list[str]]:
        for candidates in self._batcher.mix(rows, checked_settings(**settings)):
            yield [text for text, _ in candidates]
