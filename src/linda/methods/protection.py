"""Words that a new text must keep.

protected = Protected.parse(["Paris,New York", "regex:[0-9]+"])
protected.spans("Paris has 2 airports")  # [(0, 5), (10, 11)]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from linda.errors import LindaError, checked_kind, reason, shortened
from linda.files.textio import LINE_FILES, open_text

if TYPE_CHECKING:
    import regex

_REGEX = "regex:"

# A pattern with nested repetition, such as (a+)+$, can take years on a short text. Others take microseconds.
_MATCH_SECONDS = 5.0


@dataclass(frozen=True)
class Protected:
    """Words or phrases, matched as a whole and in any case, and regular expressions, matched as they are."""

    words: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    @classmethod
    def parse(cls, given: str | Iterable[str]) -> Protected:
        """Parse words separated by commas, names of files with one word per line, and `regex:PATTERN`.

        Args:
            given: One such text, or several.

        Returns:
            The words and patterns of all of them.

        Raises:
            LindaError: If a file does not exist, or a pattern does not compile.

        Example:
            Protected.parse(["names.txt", "Paris,New York", "regex:[0-9]+"])
        """
        checked_kind(given, "protect", Iterable, "a text or a list of texts")
        if isinstance(given, Iterator):
            raise LindaError(f"protect is {shortened(given)}, which can be read only once; give a list of texts")
        texts = [given] if isinstance(given, str) else [checked_kind(text, "protect", str, "a text") for text in given]
        patterns = [text.removeprefix(_REGEX) for text in texts if text.startswith(_REGEX)]
        for pattern in patterns:
            _check_pattern(pattern)
        words = [word for text in texts if not text.startswith(_REGEX) for word in _words_of(text)]
        return cls(tuple(dict.fromkeys(words)), tuple(patterns))

    def __bool__(self) -> bool:
        return bool(self.words or self.patterns)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Start and end of each protected part of a text, in order. Parts may overlap."""
        words = [match.span() for match in self._any_word.finditer(text)] if self._any_word else []
        return sorted([*words, *(span for pattern in self._compiled for span in _matches(pattern, text))])

    def are_kept(self, new: str, parents: Iterable[str]) -> bool:
        """Whether everything protected in the parents is in the new text."""
        return all(self._found(parent) <= self._found(new) for parent in parents)

    def _found(self, text: str) -> set[str]:
        return {text[start:end].casefold() for start, end in self.spans(text)}

    @cached_property
    def _any_word(self) -> re.Pattern[str] | None:
        longest_first = sorted(self.words, key=len, reverse=True)  # "New York City" before "New York"
        any_word = "|".join(re.escape(word) for word in longest_first)
        return re.compile(rf"(?<!\w)(?:{any_word})(?!\w)", re.IGNORECASE) if any_word else None

    @cached_property
    def _compiled(self) -> list[regex.Pattern[str]]:
        import regex  # like `re`, with a time limit

        return [regex.compile(pattern) for pattern in self.patterns]


def _check_pattern(pattern: str) -> None:
    import regex

    try:
        re.compile(pattern)  # first, because its messages are better known
        regex.compile(pattern)
    except (re.error, regex.error, RecursionError, OverflowError) as error:
        raise LindaError(
            f"protect: {shortened(pattern)} is not a valid regular expression ({reason(error)}); correct it"
        ) from None


def _matches(pattern: regex.Pattern[str], text: str) -> list[tuple[int, int]]:
    try:
        return [match.span() for match in pattern.finditer(text, timeout=_MATCH_SECONDS) if match.group()]
    except TimeoutError:
        raise LindaError(
            f"protect: {shortened(pattern.pattern)} takes more than {_MATCH_SECONDS:g} seconds on the text "
            f"{shortened(text)}; write it without nested repetition: a+ instead of (a+)+"
        ) from None


def is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except OSError:  # a long list of words is no file name
        return False


def _words_of(text: str) -> list[str]:
    if text.endswith(LINE_FILES) or is_file(text):
        with open_text(text) as lines:
            words = [line.strip() for line in lines if line.strip()]
    else:
        words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise LindaError(f"protect: there are no words in {text!r}; give words, a file of words, or {_REGEX}PATTERN")
    return words
