"""Filters for new texts. Each gate has a name, can be disabled, and counts what it rejects.

copies      the row equals one of its parents, although the ratio is between 0 and 1
duplicates  the row equals an original or an earlier new row
runaway     no words, many more words than both parents, or the same words repeated
drift       almost no content word comes from either parent: fluent, but about something else
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import lru_cache
from hashlib import blake2b

from linda.measures import FUNCTION_WORDS, most_repeated_trigram, words
from linda.planning.examples import Example

# A text may be longer than both parents, but not twice as long. The constants allow for very short parents.
_RUNAWAY_FACTOR, _RUNAWAY_WORDS, _RUNAWAY_CHARACTERS = 2, 10, 60

# With a smaller share of content words from the parents, a text is about something else. A good interpolation
# of a question and a statement may have a third of its words from neither.
_DRIFT_SHARE = 0.25


@dataclass(frozen=True)
class Gates:
    """Which gates are enabled; by default, all.

    Attributes:
        copies: Reject a copy of a parent, unless the ratio is 0 or 1.
        duplicates: Reject a copy of an original or of an earlier new row.
        runaway: Reject texts without words, texts much longer than both parents, and texts that repeat themselves.
        drift: Reject texts with almost no content words of either parent.
    """

    copies: bool = True
    duplicates: bool = True
    runaway: bool = True
    drift: bool = True

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of all gates."""
        return [gate.name for gate in fields(cls)]

    def rejected_by(self, new: Example, first: Example, second: Example | None, between: bool) -> str | None:
        """The gate that rejects a new row. Duplicates are not checked here, as that needs all earlier rows.

        Args:
            new: Texts of the new row.
            first: Texts of the first parent.
            second: Texts of the second parent; None if the method does not mix.
            between: Whether the ratio requires a text other than a parent.

        Returns:
            The name of the gate, or None if the row passes.

        Example:
            Gates().rejected_by(("a cat",), ("A cat.",), ("a dog",), between=True)  # "copies"
        """
        parents = [first] if second is None else [first, second]
        # each text of the row with its own parents
        columns = [(text, [parent[number] for parent in parents]) for number, text in enumerate(new)]
        if self.runaway and any(_is_runaway(text, sources) for text, sources in columns):
            return "runaway"
        if self.copies and between and any(_folded(new) == _folded(parent) for parent in parents):
            return "copies"
        if self.drift and any(_has_drifted(text, sources) for text, sources in columns):
            return "drift"
        return None


class Seen:
    """All rows so far, as 64-bit hashes: a million rows take less than 100 MB."""

    def __init__(self, examples: Iterable[Example] = ()) -> None:
        self._keys = {_key(example) for example in examples}

    def __contains__(self, example: Example) -> bool:
        return _key(example) in self._keys

    def add(self, example: Example) -> None:
        """Remember an example."""
        self._keys.add(_key(example))

    def update(self, other: "Seen") -> None:
        """Remember all examples of another set."""
        self._keys |= other._keys


@lru_cache(maxsize=64)
def _words(text: str) -> list[str]:
    """Cached: every gate needs the words of the same three texts."""
    return words(text)


def _folded(example: Example) -> list[str]:
    """Without case, spaces and punctuation, unless nothing else is left: equal for copies."""
    return ["".join(_words(text)) or text.strip() for text in example]


def _key(example: Example) -> int:
    digest = blake2b("\0".join(_folded(example)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _is_runaway(text: str, parents: list[str]) -> bool:
    length, longest = len(_words(text)), max(len(_words(parent)) for parent in parents)
    if not text.strip() or length == 0 < longest:
        return True
    if length > _RUNAWAY_FACTOR * longest + _RUNAWAY_WORDS:
        return True
    if len(text) > _RUNAWAY_FACTOR * max(map(len, parents)) + _RUNAWAY_CHARACTERS:
        return True
    loops, usual = most_repeated_trigram(text), max(most_repeated_trigram(parent) for parent in parents)
    return loops >= 3 and loops > 2 * usual


def _has_drifted(text: str, parents: list[str]) -> bool:
    content = set(_words(text)) - FUNCTION_WORDS
    if not content:
        return False
    known = {word for parent in parents for word in _words(parent)}
    return len(content & known) < _DRIFT_SHARE * len(content)
