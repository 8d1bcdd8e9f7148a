"""Between the two ends: what must come out there, that the paper's own way does not promise.

A well-trained model finds a or b likeliest far into the path, and an unsure one loops, or writes bytes that make no
character. At the ends nothing of this holds: there a text comes out as it is, whatever it is.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from enum import Enum

from linda.engines.decoding import Decoding
from linda.measures import same_text, words

# What bytes become that make no character.
_BROKEN = "\ufffd"

# No run of so many pieces is written twice.
_NO_REPEAT = 3


class Kind(Enum):
    """How a text is written: at an end (or the paper's way), between them, or there of texts with rare characters."""

    END, BETWEEN, BETWEEN_WITH_BYTES = range(3)


def kind_of(alpha: float, a: str, b: str, pieces: set[int], byte_pieces: Collection[int]) -> Kind:
    """pieces: the token ids of both texts; byte_pieces: those that stand for a byte."""
    if _is_an_end(alpha, a, b) or same_text(a, b):
        return Kind.END
    return Kind.BETWEEN if pieces.isdisjoint(byte_pieces) else Kind.BETWEEN_WITH_BYTES


def _is_an_end(alpha: float, a: str, b: str) -> bool:
    """Whether the ratio is so near to 0 or 1 that less than half a word would change: a copy is then right."""
    return min(alpha, 1 - alpha) * max(_size(a), _size(b)) < 0.5


def _size(text: str) -> int:
    """Words between spaces; characters, of scripts that have none."""
    return max(len(text.split()), len(words(text)))


def decoding_by_kind(decoding: Decoding, byte_pieces: Collection[int]) -> dict[Kind, Decoding]:
    """Between the ends there are more beams to choose from, since a and b may be among the likeliest; no loops, which
    beam search is prone to where a model is unsure; and no bytes, unless a or b has some."""
    n = decoding.n if decoding.sample else min(decoding.n + 2, decoding.beams)
    between = replace(decoding, n=n, no_repeat_ngram=decoding.no_repeat_ngram or _NO_REPEAT)
    return {
        Kind.END: decoding,
        Kind.BETWEEN: replace(between, withheld=(*decoding.withheld, *byte_pieces)),
        Kind.BETWEEN_WITH_BYTES: between,
    }


def is_unwanted(text: str, copies: tuple[str, ...]) -> bool:
    """A copy of one of two texts, or bytes that are no character: a vocabulary with bytes can write anything."""
    return _BROKEN in text or any(same_text(text, copied) for copied in copies)


def without_broken(text: str) -> str:
    """Where every beam has such bytes, the likeliest text comes out without them."""
    return " ".join(text.replace(_BROKEN, "").split()) if _BROKEN in text else text
