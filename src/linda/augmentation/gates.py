"""Which new texts are kept. Each gate has a name, a switch and a count.

copies      the row is one of its parents again, though the ratio asked for something between them
duplicates  the row is already there, among the originals or the rows made before it
runaway     no words at all, far more words than both parents have, or the same words over and over
drift       hardly a content word of it stands in either parent: fluent, but about something else
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import lru_cache
from hashlib import blake2b

from linda.measures import FUNCTION_WORDS, most_repeated_trigram, words

# A text may be longer than both parents, not twice as long; the constants leave room for very short parents.
_RUNAWAY_FACTOR, _RUNAWAY_WORDS, _RUNAWAY_CHARACTERS = 2, 10, 60

# Below this share of content words from the parents a text is about something else. An honest interpolation
# of a question and a statement may bring a third of its words from neither.
_DRIFT_SHARE = 0.25

# The texts of one row: one, or the two of a pair task.
Example = tuple[str, ...]


@dataclass(frozen=True)
class Gates:
    """Which gates are closed to bad rows; all are by default."""

    copies: bool = True
    duplicates: bool = True
    runaway: bool = True
    drift: bool = True

    @classmethod
    def names(cls) -> list[str]:
        return [gate.name for gate in fields(cls)]

    def rejected_by(self, new: Example, first: Example, second: Example | None, between: bool) -> str | None:
        """The gate that stops this new row, judged by itself and its parents; None lets it pass.

        between: whether something other than a copy of a parent was asked for. Duplicates are not judged here:
        they need the rows before this one.
        """
        parents = [first] if second is None else [first, second]
        # each text of the row with its own parents
        columns = [(text, [parent[number] for parent in parents]) for number, text in enumerate(new)]
        if self.runaway and any(_is_runaway(text, sources) for text, sources in columns):
            return "runaway"
        if self.copies and between and any(same_example(new, parent) for parent in parents):
            return "copies"
        if self.drift and any(_has_drifted(text, sources) for text, sources in columns):
            return "drift"
        return None


class Seen:
    """The examples that are there already, as 64-bit hashes: a million take less than 100 MB."""

    def __init__(self, examples: Iterable[Example] = ()) -> None:
        self._keys = {_key(example) for example in examples}

    def __contains__(self, example: Example) -> bool:
        return _key(example) in self._keys

    def add(self, example: Example) -> None:
        self._keys.add(_key(example))

    def update(self, other: "Seen") -> None:
        self._keys |= other._keys


@lru_cache(maxsize=64)
def _words(text: str) -> list[str]:
    """Every gate asks for the words of the same three texts."""
    return words(text)


def same_example(first: Example, second: Example) -> bool:
    return _folded(first) == _folded(second)


def _folded(example: Example) -> list[str]:
    """Without case, spaces and punctuation; a text that has nothing else stays as it is."""
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
