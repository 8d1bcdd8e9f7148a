"""Does a model interpolate? Decodes held-out pairs once and takes every measure from that."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from linda.inspection.conditions import measure_conditions
from linda.inspection.path import decode, measure_middle, measure_path
from linda.inspection.report import Fluency, Inspection, write_report
from linda.inspection.verdict import STANDARDS, Requirement, Standard, verdict
from linda.measures import ends_like_a_sentence, repeats_itself
from linda.measures.fluency import LanguageModel, shuffled_words, word_mix
from linda.measures.pairs import Pair

if TYPE_CHECKING:
    from linda.interpolation import Interpolator
    from linda.model import LindaModel

__all__ = ["STANDARDS", "Inspection", "Requirement", "Standard", "inspect_model", "verdict", "write_report"]


def inspect_model(
    interpolator: Interpolator,
    model: LindaModel,
    pairs: Sequence[Pair],
    *,
    language_model: LanguageModel | None = None,
    with_raw: bool = False,
    seed: int = 0,
    progress: bool = False,
) -> Inspection:
    """Every measure on these pairs: of the texts that `interpolator` writes and the probabilities of its `model`.

    `with_raw` decodes a second time, along the raw path.
    """
    decoded = decode(interpolator, pairs, raw=False, seed=seed, progress=progress)
    raw = None
    if with_raw:
        raw = measure_path(interpolator, pairs, decode(interpolator, pairs, raw=True, seed=seed, progress=progress))
    fluency = None
    if language_model is not None:
        fluency = _measure_fluency(language_model, pairs, decoded.texts[0.5], seed, progress)
    real = [text for pair in pairs for text in pair]
    return Inspection(
        pairs=list(pairs),
        decoded=decoded,
        calibrated=measure_path(interpolator, pairs, decoded),
        raw=raw,
        conditions=measure_conditions(model, pairs, progress),
        middle=measure_middle(pairs, decoded.texts[0.5]),
        fluency=fluency,
        real_sentence_ends=sum(map(ends_like_a_sentence, real)) / len(real),
        real_repeating=sum(map(repeats_itself, real)) / len(real),
    )


def _measure_fluency(
    language_model: LanguageModel, pairs: Sequence[Pair], outputs: Sequence[str], seed: int, progress: bool
) -> Fluency:
    random = Random(seed)
    sets = {
        "outputs": list(outputs),
        "real": list(dict.fromkeys(text for pair in pairs for text in pair)),
        "word_mix": [word_mix(a, b, 0.5, random) for a, b in pairs],
        "shuffled": [shuffled_words(a, random) for a, _ in pairs],
    }
    return Fluency(**{name: language_model.perplexity(texts, progress) for name, texts in sets.items()})
