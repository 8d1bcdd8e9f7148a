"""Perplexity of the outputs and of the references, with the faithfulness of the same texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from linda.inspection.references import Texts
from linda.measures import faithfulness
from linda.measures.fluency import LanguageModel, Perplexity
from linda.measures.pairs import Pair

OUTPUTS = "outputs"


@dataclass(frozen=True)
class FluencyPoint:
    """Texts of one kind at one ratio."""

    alpha: float
    perplexity: Perplexity
    faithfulness: float


@dataclass(frozen=True)
class Fluency:
    """Perplexity under an independent language model.

    Attributes:
        real: Perplexity of the sentences of the pairs.
        points: For OUTPUTS and for each name of `references`, one point per ratio at which there are texts.
    """

    real: Perplexity
    points: dict[str, list[FluencyPoint]]

    def at(self, name: str, alpha: float) -> FluencyPoint | None:
        """Return the point of a kind of text at a ratio; None if it was not measured."""
        return next((point for point in self.points.get(name, []) if point.alpha == alpha), None)

    def relative_to_real(self, point: FluencyPoint) -> float:
        """Return the perplexity per token, divided by that of real sentences."""
        return point.perplexity.per_token / self.real.per_token

    def relative_to(self, name: str, alpha: float) -> float | None:
        """Return the perplexity per token of the outputs, divided by that of a reference at the same ratio."""
        outputs, reference = self.at(OUTPUTS, alpha), self.at(name, alpha)
        if outputs is None or reference is None:
            return None
        return outputs.perplexity.per_token / reference.perplexity.per_token


def measure_fluency(
    language_model: LanguageModel,
    pairs: Sequence[Pair],
    outputs: Texts,
    references: Mapping[str, Texts],
    progress: bool = False,
) -> Fluency:
    """Measure the perplexity of outputs and references; each distinct text is scored once.

    Args:
        language_model: Language model, independent of the model that wrote the outputs.
        pairs: Texts a and b.
        outputs: Outputs by ratio, one per pair.
        references: Texts of each kind of reference, by ratio, one per pair.
        progress: Show a progress bar.

    Returns:
        One point per kind and ratio.

    Example:
        >>> measure_fluency(LanguageModel.load("smollm2-135m"), pairs, decoded.texts, reference_texts(pairs))
    """
    real = list(dict.fromkeys(text for pair in pairs for text in pair))
    kinds = {OUTPUTS: outputs, **references}
    every = dict.fromkeys(real)
    for texts in kinds.values():
        every.update(dict.fromkeys(text for row in texts.values() for text in row))
    losses = dict(zip(every, language_model.losses(list(every), progress), strict=True))

    def point(alpha: float, texts: Sequence[str]) -> FluencyPoint:
        return FluencyPoint(
            alpha,
            Perplexity.of([losses[text] for text in texts]),
            fmean(faithfulness(text, *pair) for text, pair in zip(texts, pairs, strict=True)),
        )

    return Fluency(
        Perplexity.of([losses[text] for text in real]),
        {name: [point(alpha, row) for alpha, row in texts.items()] for name, texts in kinds.items()},
    )
