"""Decoding rules for texts between the two ends, in addition to the paper's method.

A well-trained model finds a or b most likely over much of the path, and an uncertain one repeats itself or generates
invalid UTF-8. These rules do not apply at the ends: there a text is reproduced as it is, whatever it contains.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from enum import Enum

from linda.engines.decoding import Decoding
from linda.measures import same_text, words

# The replacement character, which stands for bytes that are not valid UTF-8.
_BROKEN = "\ufffd"

# No n-gram of this many tokens is generated twice.
_NO_REPEAT = 3


class Kind(Enum):
    """Where a text lies: at an end (or raw mixing), between the ends, or there with rare characters in a or b."""

    END, BETWEEN, BETWEEN_WITH_BYTES = range(3)


def kind_of(alpha: float, a: str, b: str, pieces: set[int], byte_pieces: Collection[int]) -> Kind:
    """Classify a mix; pieces: token ids of both texts, byte_pieces: token ids that stand for a byte."""
    if _is_an_end(alpha, a, b) or same_text(a, b):
        return Kind.END
    return Kind.BETWEEN if pieces.isdisjoint(byte_pieces) else Kind.BETWEEN_WITH_BYTES


def _is_an_end(alpha: float, a: str, b: str) -> bool:
    """Whether the ratio is so close to 0 or 1 that less than half a word would change: a copy is then correct."""
    return min(alpha, 1 - alpha) * max(_size(a), _size(b)) < 0.5


def _size(text: str) -> int:
    """Number of words separated by spaces; of characters in scripts without spaces."""
    return max(len(text.split()), len(words(text)))


def decoding_by_kind(decoding: Decoding, byte_pieces: Collection[int]) -> dict[Kind, Decoding]:
    """Return the decoding settings for each kind.

    Between the ends more beams are kept, since a and b may be among the likeliest; repeated n-grams are banned, since
    beam search tends to loop where a model is uncertain; bytes are forbidden, unless a or b contains some.
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
    """Remove replacement characters, for the case that every beam has some."""
    return " ".join(text.replace(_BROKEN, "").split()) if _BROKEN in text else text
