"""A fast method with predictable texts: the beginning of one text, the end of the other."""

from collections.abc import Sequence
from random import Random

from linda.augmentation.texts import Writer
from linda.errors import LindaError
from linda.methods import AugmentationMethod


class Splice(AugmentationMethod):
    """The first α of a's words, the last 1−α of b's."""

    name = "splice"
    needs_partner = True

    def __init__(self) -> None:
        self.batches: list[int] = []  # number of rows of each call

    def texts(
        self, a: Sequence[str], b: Sequence[str] | None, alpha: Sequence[float] | None, seeds: Sequence[int]
    ) -> list[str]:
        assert b is not None
        assert alpha is not None
        self.batches.append(len(a))
        return [splice(*row) for row in zip(a, b, alpha, strict=True)]

    @property
    def sampling(self) -> "RandomSplice":
        return RandomSplice()


class RandomSplice(Splice):
    """Each word from one text or the other at random."""

    def texts(
        self, a: Sequence[str], b: Sequence[str] | None, alpha: Sequence[float] | None, seeds: Sequence[int]
    ) -> list[str]:
        assert b is not None
        return [
            " ".join(Random(seed + n).choice(pair) for n, pair in enumerate(zip(x.split(), y.split(), strict=False)))
            for x, y, seed in zip(a, b, seeds, strict=True)
        ]


class Shout(AugmentationMethod):
    """Changes one text, mixes none."""

    name = "shout"
    needs_partner = False

    def texts(
        self, a: Sequence[str], b: Sequence[str] | None, alpha: Sequence[float] | None, seeds: Sequence[int]
    ) -> list[str]:
        assert b is None
        assert alpha is None
        return [f"{text} loudly" for text in a]


def no_writer() -> Writer:
    raise LindaError("there is no such model")


def splice(a: str, b: str, alpha: float) -> str:
    first, second = a.split(), b.split()
    return " ".join(first[: round(alpha * len(first))] + second[round(alpha * len(second)) :])


def sentences(count: int) -> list[str]:
    """Sentences without common words, so that every word identifies its row."""
    return [" ".join(f"{word}{row}" for word in ("ape", "bee", "cat", "dog", "elk", "fox")) for row in range(count)]
