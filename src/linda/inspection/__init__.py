"""Measures of how well a model interpolates. Held-out pairs are decoded once; all measures use these outputs.

path        outputs along the path, and what is measured at each ratio
conditions  the paper's four conditions
references  baselines from the same pairs: splices, crossovers, word-level mixes and shuffled words
fluency     perplexity of outputs and references
verdict     bounds, and whether a model meets them
report      report.json, report.md, outputs.jsonl
figures     PNG figures
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from linda.inspection.conditions import ATTENTION, STATES, measure_conditions
from linda.inspection.fluency import measure_fluency
from linda.inspection.path import decode, measure_path
from linda.inspection.references import reference_texts
from linda.inspection.report import Inspection, write_inspection
from linda.inspection.verdict import STANDARDS, Requirement, Standard, verdict
from linda.measures import ends_like_a_sentence, repeats_itself
from linda.measures.pairs import Pair

if TYPE_CHECKING:
    from linda.interpolation import Interpolator
    from linda.measures.fluency import LanguageModel
    from linda.middles.ngrams import TrigramModel
    from linda.middles.rerank import SeamRanker
    from linda.model import LindaModel

__all__ = ["STANDARDS", "Inspection", "Requirement", "Standard", "inspect_model", "verdict", "write_inspection"]


def inspect_model(
    interpolator: Interpolator,
    model: LindaModel,
    pairs: Sequence[Pair],
    *,
    language_model: LanguageModel | None = None,
    trigrams: TrigramModel | None = None,
    ranker: SeamRanker | None = None,
    with_raw: bool = False,
    seed: int = 0,
    progress: bool = False,
) -> Inspection:
    """Measure how well a model interpolates between some pairs.

    Args:
        interpolator: Interpolator that writes the outputs.
        model: The same model, for the probabilities of the paper's conditions.
        pairs: Texts a and b.
        language_model: Language model for perplexity; None skips it.
        trigrams: Trigram model for the best crossovers, the strongest reference; None skips them.
        ranker: Ranker for crossovers chosen by a language model at α = 0.5; needs `trigrams`.
        with_raw: Decode a second time with the paper's mixing at the raw ratio.
        seed: Seed of the random references.
        progress: Show progress bars.

    Returns:
        All measurements, and the outputs.

    Example:
        >>> inspection = inspect_model(Interpolator.of(model), model, draw_pairs(sentences, 100))
        >>> inspection.calibrated.aim
    """
    decoded = decode(interpolator, pairs, raw=False, seed=seed, progress=progress)
    raw = None
    if with_raw:
        raw = measure_path(interpolator, pairs, decode(interpolator, pairs, raw=True, seed=seed, progress=progress))
    by_attention = model.config.mixing == ATTENTION
    mixings = [STATES] if with_raw or not by_attention else []
    mixings += [ATTENTION] if by_attention else []
    fluency = None
    if language_model is not None:
        references = reference_texts(pairs, trigrams=trigrams, ranker=ranker, seed=seed)
        fluency = measure_fluency(language_model, pairs, decoded.texts, references, progress)
    real = [text for pair in pairs for text in pair]
    return Inspection(
        pairs=list(pairs),
        decoded=decoded,
        calibrated=measure_path(interpolator, pairs, decoded),
        raw=raw,
        conditions={mixing: measure_conditions(model, pairs, mixing, progress) for mixing in mixings},
        fluency=fluency,
        real_sentence_ends=sum(map(ends_like_a_sentence, real)) / len(real),
        real_repeating=sum(map(repeats_itself, real)) / len(real),
    )
