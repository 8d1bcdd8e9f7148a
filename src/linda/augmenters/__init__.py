"""One file per way to make a new text, all behind one call.

    method = augmenters.load("eda")
    method.texts(["What is the capital of France?"], None, None, [0])

A method answers row by row: a row's text depends on its own inputs and its own seed, never on the other
rows, so that a plan can be cut into batches, spread over workers or resumed anywhere with the same result.
"""

from collections.abc import Sequence
from importlib import import_module
from inspect import signature
from typing import Any, Protocol, cast

from linda.errors import LindaError


class Augmenter(Protocol):
    """One new text for each row."""

    name: str
    needs_partner: bool  # whether `b` and `alpha` are read at all

    def texts(
        self, a: Sequence[str], b: Sequence[str] | None, alpha: Sequence[float] | None, seeds: Sequence[int]
    ) -> list[str]:
        """a, b: first and second text of each row; alpha: the share of the first; seeds: one per row."""
        ...


# name: (module, class). Modules are imported when first asked for: each brings its own heavy libraries.
_METHODS = {
    "linda": ("linda.augmenters.linda", "Linda"),
    "eda": ("linda.augmenters.eda", "Eda"),
    "ssmba": ("linda.augmenters.ssmba", "Ssmba"),
    "backtranslation": ("linda.augmenters.backtranslation", "BackTranslation"),
}


def names() -> list[str]:
    return list(_METHODS)


def find(name: str) -> type[Augmenter]:
    """The class of that name: it tells what a method needs before any model is loaded."""
    if name not in _METHODS:
        raise LindaError(f"there is no augmenter {name!r}; known are {', '.join(_METHODS)}")
    module, class_name = _METHODS[name]
    return cast(type[Augmenter], getattr(import_module(module), class_name))


def load(name: str, **settings: Any) -> Augmenter:
    """The method of that name, with its own settings (a model's folder, a share of words …)."""
    method = find(name)
    try:
        signature(method).bind(**settings)
    except TypeError as error:
        raise LindaError(f"the augmenter {name!r} cannot be set up so: {error}") from error
    return method(**settings)
