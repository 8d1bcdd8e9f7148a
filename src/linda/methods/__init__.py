"""Augmentation methods, one module each, with a common protocol.

    method = methods.load("eda")
    method.texts(["What is the capital of France?"], None, None, [0])

linda            the text between two texts
eda              small random edits of words; `synonyms` holds its thesaurus
ssmba            mask words and sample replacements
backtranslation  translate to another language and back
crossover        join parts of two texts, cut anywhere or where a trigram model finds the best seam
cached           any of them, with its texts kept in a file

`rewriting` runs an encoder-decoder on single texts, for SSMBA and back-translation. `protection` finds words that a
new text must keep.

The text of a row depends on its own inputs and its own seed, never on the other rows of the call. So a plan can be
split into batches, distributed over workers or resumed at any row, with the same result.
"""

from collections.abc import Sequence
from importlib import import_module
from inspect import signature
from typing import Any, Protocol, cast, runtime_checkable

from linda.errors import LindaError


@runtime_checkable
class AugmentationMethod(Protocol):
    """Writes one new text for each row. Subclass it to define your own method; only `texts` must be implemented.

    Example:
        class Shout(AugmentationMethod):
            name, needs_partner = "shout", False

            def texts(self, a, b, alpha, seeds):
                return [text.upper() for text in a]
    """

    name: str
    needs_partner: bool  # whether `texts` reads `b` and `alpha`

    def texts(
        self, a: Sequence[str], b: Sequence[str] | None, alpha: Sequence[float] | None, seeds: Sequence[int]
    ) -> list[str]:
        """Write the new texts.

        Args:
            a: First text of each row.
            b: Second text of each row; None if the method needs no partner.
            alpha: Share of the first text, from 0 to 1; None if the method needs no partner.
            seeds: One seed per row.

        Returns:
            One text per row, in order.
        """
        ...

    @property
    def sampling(self) -> "AugmentationMethod":
        """The method that retries use. Its texts must change with the seed; by default, the method itself."""
        return self

    @staticmethod
    def engine_for(model: Any, engine: str) -> str | None:
        """Name of the engine that would run this LINDA model; None if the method has no LINDA model."""
        return None


# name: (module, class). Modules are imported on first use, because each has its own heavy dependencies.
_METHODS = {
    "linda": ("linda.methods.linda", "Linda"),
    "eda": ("linda.methods.eda", "Eda"),
    "ssmba": ("linda.methods.ssmba", "Ssmba"),
    "backtranslation": ("linda.methods.backtranslation", "BackTranslation"),
    "splice": ("linda.methods.crossover", "Splice"),
    "crossover": ("linda.methods.crossover", "TrigramCrossover"),
}


def names() -> list[str]:
    """Return the names of all methods."""
    return list(_METHODS)


def find(name: str) -> type[AugmentationMethod]:
    """Return the class of a method, without loading a model."""
    if name not in _METHODS:
        raise LindaError(f"unknown method {name!r}; choose from {', '.join(_METHODS)}")
    module, class_name = _METHODS[name]
    return cast(type[AugmentationMethod], getattr(import_module(module), class_name))


def load(name: str, **options: Any) -> AugmentationMethod:
    """Create a method with its own options, such as the folder of its model."""
    method = find(name)
    try:
        signature(method).bind(**options)
    except TypeError as error:
        raise LindaError(f"wrong options for the method {name!r}: {error}") from error
    return method(**options)
