"""Everything that the server needs of `linda.interpolation`, in one place."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from linda.engines.decoding import Decoding, Hypothesis
from linda.errors import LindaError, checked_ratio, checked_text
from linda.interpolation import Interpolator
from linda.interpolation.interpolator import row_seeds
from linda.web.batcher import Batcher, Candidates, Row, Settings

# Encoded texts that later requests find again: the same text often comes with other partners and ratios. 32 MB at 512
# numbers a state.
_REMEMBERED_TOKENS = 2**14

SCORE_IS = "mean log-probability of the text's tokens under the decoder"


class ScoredInterpolator:
    """An interpolator that also tells the decoder's score of each text. One thread uses it at a time."""

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
            batch_tokens=interpolator.engine.batch_tokens, most_tokens=_REMEMBERED_TOKENS
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
        """The texts of each row and their scores, in order.

        Scores are found by the seed and the text of a row. A search reads no seed, so each row can have its own there.
        """
        self._scores.clear()
        if not settings["sample"]:
            rows = [(a, b, alpha, number) for number, (a, b, alpha, _) in enumerate(rows)]
        stream = self._scored.mix_stream(rows, on_progress=on_progress, encoded=self._encoded, **settings)
        for (_, _, _, seed), texts in zip(rows, stream, strict=True):
            yield [(text, self._scores.find(seed, text)) for text in texts]


class _ScoreKeeper:
    """An engine that remembers the score of every text it wrote."""

    def __init__(self, interpolator: Interpolator) -> None:
        self._engine = interpolator.engine
        self._tokens = interpolator.tokens
        self._scores: dict[tuple[int, str], float | None] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def clear(self) -> None:
        self._scores.clear()

    def find(self, seed: int, text: str) -> float | None:
        """None for a text of several parts, where two rows of one seed drew the same text, and for no finite number."""
        score = self._scores.get((seed, text))
        return score if score is not None and math.isfinite(score) else None

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


def checked_rows(a: list[str], b: list[str], alpha: Sequence[Any], seed: int) -> list[Row]:
    """Rows as `Interpolator.mix` makes them, with its wording of errors: nothing that is queued can fail later.

    Args:
        a, b, alpha: texts and ratios of the pairs, of equal length; nothing is known of their types.
        seed: of the whole request; every row gets its own.

    Returns:
        What `Batcher.submit` takes.

    Example:
        checked_rows(["One text."], ["Another text."], [0.5], seed=0)
    """
    if not len(a) == len(b) == len(alpha):
        raise LindaError(f"got {len(a)} texts a, {len(b)} texts b and {len(alpha)} ratios; give as many of each")
    rows = []
    for number, (first, second, ratio, row_seed) in enumerate(zip(a, b, alpha, row_seeds(seed), strict=False), start=1):
        which = f" of pair {number}" if len(a) > 1 else ""
        checked_text(first, f"text a{which}")
        checked_text(second, f"text b{which}")
        rows.append((first, second, checked_ratio(ratio, f"alpha{which}"), row_seed))
    return rows


def checked_settings(*, raw: bool = False, copies: bool | None = None, **decoding: Any) -> Settings:
    """Every setting of `Interpolator.mix_stream`, so that equal ones are seen to be equal."""
    known = asdict(Decoding())
    for name in decoding:
        if name not in known:
            raise LindaError(f"there is no decoding setting {name!r}; known are {', '.join(known)}")
    settings = {**known, **decoding}
    Decoding(**settings)
    return tuple(sorted({"raw": raw, "copies": copies, **settings}.items()))


class SharedInterpolator(Interpolator):
    """The server's one model for callers on other threads: their rows join the micro-batches of everybody."""

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
