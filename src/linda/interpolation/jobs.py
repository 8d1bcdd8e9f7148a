"""Jobs: parts of rows, each of which fits the model's window."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from linda.config import LindaConfig
from linda.errors import LindaError, checked_ratio, checked_text
from linda.interpolation.between import Kind, is_negligible, kind_between, kind_of
from linda.interpolation.calibration import calibrated
from linda.interpolation.longtext import Part, align_sentences, split_to_window
from linda.interpolation.rows import Row, checked_mixture, merged_texts, ratio_of, row_seeds
from linda.model.tokens import Tokens

Ids = tuple[int, ...]

# 0.1·3 and the like are slightly above the exact value: rounding up Σ w·L could add a sentence.
_ROUNDING_ERROR = 1e-4


@dataclass(frozen=True)
class Job:
    """Two or more texts that all fit the window. A long row is split into several consecutive jobs."""

    texts: tuple[str, ...]
    ids: tuple[Ids, ...]
    weights: tuple[float, ...]  # of each text; for two texts, after calibration
    seed: int
    gap: str  # white space after the output in its row
    ends_row: bool
    kind: Kind
    by_attention: bool  # mix by attention instead of states
    copies: bool  # return the most likely beam even if it is a copy
    unwanted: tuple[str, ...] = ()  # texts to avoid if there is another candidate

    @property
    def longest(self) -> int:
        return max(map(len, self.ids))

    def without_smallest_weight(self) -> Job:
        """Leave out the text with the smallest weight, the last of several."""
        least = min(range(len(self.texts)), key=lambda t: (self.weights[t], -t))
        texts, ids, weights = (
            (*values[:least], *values[least + 1 :]) for values in (self.texts, self.ids, self.weights)
        )
        return replace(self, texts=texts, ids=ids, weights=_normalized(weights))


class JobMaker:
    """Splits rows into jobs for one model.

    Args:
        config: Settings of the model.
        tokens: Tokenizer of the model.
        by_attention: Mix by attention instead of states.
        raw: Do not calibrate the ratio.
        copies: Return the most likely beam even if it is a copy.
    """

    def __init__(self, config: LindaConfig, tokens: Tokens, *, by_attention: bool, raw: bool, copies: bool) -> None:
        self._config, self._tokens = config, tokens
        self._by_attention, self._raw, self._copies = by_attention, raw, copies

    def __call__(self, row: Row) -> Iterator[Job]:
        if len(row) == 4:
            a, b, alpha, seed = row
            return self._of_pair(checked_text(a, "text a"), checked_text(b, "text b"), checked_ratio(alpha), seed)
        return self._of_texts(*checked_mixture(row[0], row[1]), row[2])

    def _of_texts(self, texts: Sequence[str], weights: Sequence[float], seed: int) -> Iterator[Job]:
        texts, weights = _without_negligible(*merged_texts(texts, weights))
        if len(texts) <= 2:
            yield from self._of_two_at_most(texts, weights, seed)
            return
        if not self._by_attention or self._copies:
            raise LindaError(
                f"{len(texts)} texts can be mixed only by a model that mixes by attention, without `raw` and `copies`; "
                "use the embedded model, or mix two texts"
            )
        fits = all(len(self._tokens.ids(text)) <= self._config.window for text in texts)
        parts = [(Part(texts, ""), seed, True)] if fits else self._parts(texts, weights, seed)
        for part, part_seed, ends_row in parts:
            yield replace(self._job_of_texts(part.texts, weights, part_seed), gap=part.gap, ends_row=ends_row)

    def _job_of_texts(self, texts: Sequence[str], weights: Sequence[float], seed: int) -> Job:
        """Return the job of texts that fit the window; sentences of different texts may be equal."""
        texts, weights = _without_negligible(*merged_texts(texts, weights))
        if len(texts) <= 2:
            [job] = self._of_two_at_most(texts, weights, seed)
            return job
        ids = tuple(map(self._tokens.ids, texts))
        kind = kind_between({token for text in ids for token in text}, self._tokens.bytes)
        return Job(texts, ids, weights, seed, "", True, kind, self._by_attention, self._copies, unwanted=texts)

    def _of_two_at_most(self, texts: Sequence[str], weights: Sequence[float], seed: int) -> Iterator[Job]:
        if len(texts) == 1:
            return self._of_pair(texts[0], texts[0], 1.0, seed)
        return self._of_pair(texts[0], texts[1], ratio_of(weights), seed)

    def _of_pair(self, a: str, b: str, alpha: float, seed: int) -> Iterator[Job]:
        # Crossovers have the requested share, so they need no calibration.
        is_exact = self._raw or self._by_attention
        mixed = alpha if is_exact else calibrated(alpha, self._config.calibration)
        ids_a, ids_b = self._tokens.ids(a), self._tokens.ids(b)
        kind = Kind.END if self._copies else kind_of(alpha, a, b, {*ids_a, *ids_b}, self._tokens.bytes)

        def job(texts: tuple[str, ...], ids: tuple[Ids, ...], seed: int, gap: str, ends_row: bool) -> Job:
            weights = mixed, 1 - mixed
            return Job(texts, ids, weights, seed, gap, ends_row, kind, self._by_attention, self._copies)

        if max(len(ids_a), len(ids_b)) <= self._config.window:
            unwanted = () if kind == Kind.END else (a, b)
            yield replace(job((a, b), (ids_a, ids_b), seed, "", ends_row=True), unwanted=unwanted)
            return
        for part, part_seed, ends_row in self._parts((a, b), (alpha, 1 - alpha), seed):
            yield job(part.texts, tuple(map(self._tokens.ids, part.texts)), part_seed, part.gap, ends_row)

    def _parts(self, texts: Sequence[str], weights: Sequence[float], seed: int) -> Iterator[tuple[Part, int, bool]]:
        """Split long texts into parts of one sentence each; yield each part, its seed and whether it is the last."""
        sentences = [
            split_to_window(text, lambda part: len(self._tokens.ids(part)), self._config.window) for text in texts
        ]
        mean = sum(weight * len(each) for weight, each in zip(weights, sentences, strict=True))
        count = max(1, math.ceil(mean - _ROUNDING_ERROR))  # Eq. 3, in sentences
        parts = align_sentences(sentences, count, weights)
        for j, (part, part_seed) in enumerate(zip(parts, row_seeds(seed), strict=False)):
            yield part, part_seed, j == count - 1


def _without_negligible(texts: Sequence[str], weights: Sequence[float]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Leave out texts with less than half a word in the mix, if there are three or more texts."""
    if len(texts) <= 2:
        return tuple(texts), tuple(weights)
    kept = [t for t, weight in enumerate(weights) if not is_negligible(weight, texts)]
    kept = kept or [max(range(len(texts)), key=lambda t: weights[t])]
    return tuple(texts[t] for t in kept), _normalized([weights[t] for t in kept])


def _normalized(weights: Sequence[float]) -> tuple[float, ...]:
    total = math.fsum(weights)
    return tuple(weights) if math.isclose(total, 1.0) else tuple(weight / total for weight in weights)


def chunks(jobs: Iterable[Job], tokens: int) -> Iterator[list[Job]]:
    """Group consecutive jobs into chunks of about `tokens` tokens."""
    chunk: list[Job] = []
    total = 0
    for job in jobs:
        chunk.append(job)
        total += job.longest
        if total >= tokens:
            yield chunk
            chunk, total = [], 0
    if chunk:
        yield chunk
