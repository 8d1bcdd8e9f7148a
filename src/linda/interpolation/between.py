"""Decoding rules for texts between the two ends, in addition to the paper's method.

For much of the path, the most likely text of a well-trained model is a or b, and where a model is uncertain it repeats
itself or generates invalid UTF-8. The rules do not apply at the ends, where a text is reproduced unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from enum import Enum

from linda.engines.decoding import Decoding
from linda.measures import same_text, words

_BROKEN = "\ufffd"  # the replacement character, for bytes that are not valid UTF-8
_NO_REPEAT = 3  # size of n-grams that must not occur twice


class Kind(Enum):
    """The position of a mix: at an end (also: raw mixing), or between, with or without byte tokens in the texts."""

    END, BETWEEN, BETWEEN_WITH_BYTES = range(3)


def kind_of(alpha: float, a: str, b: str, pieces: set[int], byte_pieces: Collection[int]) -> Kind:
    """Classify a mix; pieces: token ids of both texts, byte_pieces: ids of the byte tokens."""
    # If less than half a word should change, a copy is correct.
    if is_negligible(min(alpha, 1 - alpha), (a, b)) or same_text(a, b):
        return Kind.END
    return kind_between(pieces, byte_pieces)


def kind_between(pieces: set[int], byte_pieces: Collection[int]) -> Kind:
    return Kind.BETWEEN if pieces.isdisjoint(byte_pieces) else Kind.BETWEEN_WITH_BYTES


def is_negligible(weight: float, texts: Iterable[str]) -> bool:
    """Whether a text of this weight would have less than half a word in the mix of the texts."""
    return weight * max(map(_size, texts)) < 0.5


def _size(text: str) -> int:
    """Return the number of words separated by spaces; of characters in scripts without spaces."""
    return max(len(text.split()), len(words(text)))


def decoding_by_kind(decoding: Decoding, byte_pieces: Collection[int]) -> dict[Kind, Decoding]:
    """Return the decoding settings for each kind.

    Between the ends, more beams are returned, since a and b may be among the most likely; repeated n-grams are banned,
    since beam search tends to loop where a model is uncertain; byte tokens are banned, unless a or b contains some.
    """
    n = decoding.n if decoding.sample else min(decoding.n + 2, decoding.beams)
    between = replace(decoding, n=n, no_repeat_ngram=decoding.no_repeat_ngram or _NO_REPEAT)
    return {
        Kind.END: decoding,
        Kind.BETWEEN: replace(between, withheld=(*decoding.withheld, *byte_pieces)),
        Kind.BETWEEN_WITH_BYTES: between,
    }


def is_unwanted(text: str, copies: tuple[str, ...]) -> bool:
    """Whether a text is a copy of one of `copies`, or contains invalid UTF-8 (from byte tokens)."""
    return _BROKEN in text or any(same_text(text, copied) for copied in copies)


def without_broken(text: str) -> str:
    """Remove replacement characters, if every beam has some."""
    return " ".join(text.replace(_BROKEN, "").split()) if _BROKEN in text else text
