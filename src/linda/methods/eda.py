"""EDA (Wei & Zou 2019): one of four random edits of the words of a text.

Replace words by synonyms, insert synonyms, swap words, or delete words. The original implementation removes case and
punctuation first. Here only words change; spaces and punctuation stay in place.
"""

import re
from collections.abc import Callable, Sequence
from random import Random

from linda.errors import LindaError
from linda.measures import FUNCTION_WORDS
from linda.methods import AugmentationMethod
from linda.methods.protection import Protected
from linda.methods.synonyms import synonyms

_WORD = re.compile(r"\w+(?:['’-]\w+)*")

_Change = Callable[[list[str], list[str], Random], None]  # words and gaps, changed in place


class Eda(AugmentationMethod):
    """Edit words at random.

    Args:
        share: Fraction of the words that an edit changes (at least one); for deletions, the probability per word.
        protected: Words that no edit changes.
    """

    name = "eda"
    needs_partner = False

    def __init__(self, share: float = 0.1, protected: Protected | None = None) -> None:
        if not 0 < share <= 1:
            raise LindaError(f"the share of words that EDA changes is {share}; it must be above 0 and at most 1")
        self.share = share
        self.protected = protected or Protected()
        self._changes: list[_Change] = [self._replace, self._insert, self._swap, self._delete]

    def texts(
        self, a: Sequence[str], b: Sequence[str] | None, alpha: Sequence[float] | None, seeds: Sequence[int]
    ) -> list[str]:
        """Edit each text of `a`; `b` and `alpha` are not used."""
        random = Random()  # reseeded for each row: creating one costs more than editing a short text
        texts = []
        for text, seed in zip(a, seeds, strict=True):
            random.seed(seed)
            texts.append(self._changed(text, random))
        return texts

    def _changed(self, text: str, random: Random) -> str:
        """Apply a random edit; if it changes nothing, the next. Some texts cannot be changed by any."""
        all_words, all_gaps = self._split(text)
        if not all_words:
            return text
        first = int(4 * random.random())
        for number in range(first, first + 4):
            words, gaps = list(all_words), list(all_gaps)
            self._changes[number % 4](words, gaps, random)
            changed = _joined(words, gaps)
            if changed != text:
                return changed
        return text

    def _split(self, text: str) -> tuple[list[str], list[str]]:
        """The words that may change, and the gaps: gaps[i] precedes words[i], the last gap follows all words."""
        spans = self.protected.spans(text)
        words, gaps, end = [], [], 0
        for match in _WORD.finditer(text):
            if any(match.start() < stop and start < match.end() for start, stop in spans):
                continue
            words.append(match.group())
            gaps.append(text[end : match.start()])
            end = match.end()
        return words, [*gaps, text[end:]]

    def _count(self, words: list[str]) -> int:
        return max(1, int(self.share * len(words)))

    def _replace(self, words: list[str], gaps: list[str], random: Random) -> None:
        """Replace all occurrences of some words by a synonym, except function words: their synonyms do not fit."""
        left = self._count(words)
        candidates = list(dict.fromkeys(word for word in words if word.lower() not in FUNCTION_WORDS))
        while left and candidates:
            candidate = candidates.pop(int(len(candidates) * random.random()))
            choices = synonyms(candidate.lower())
            if choices:
                synonym = _with_case_of(candidate, random.choice(choices))
                words[:] = [synonym if word == candidate else word for word in words]
                left -= 1

    def _insert(self, words: list[str], gaps: list[str], random: Random) -> None:
        """Insert synonyms of random words at random positions."""
        candidates = [word for word in words if word.lower() not in FUNCTION_WORDS]
        for _ in range(self._count(words)):
            choices: tuple[str, ...] = ()
            while candidates and not choices:
                place = int(len(candidates) * random.random())
                choices = synonyms(candidates[place].lower())
                if not choices:
                    del candidates[place]
            if not choices:
                return
            place = int((len(words) + 1) * random.random())
            words.insert(place, random.choice(choices))
            # The gap before this position precedes the new word; at the end, final punctuation stays last.
            gaps.insert(place if place == len(words) - 1 else place + 1, " ")

    def _swap(self, words: list[str], gaps: list[str], random: Random) -> None:
        """Swap random pairs of words."""
        if len(words) < 2:
            return
        for _ in range(self._count(words)):
            first = int(len(words) * random.random())
            second = (first + 1 + int((len(words) - 1) * random.random())) % len(words)  # never equal to first
            words[first], words[second] = words[second], words[first]

    def _delete(self, words: list[str], gaps: list[str], random: Random) -> None:
        """Delete each word with a small probability, but never all of them."""
        for place in reversed(range(len(words))):
            if len(words) > 1 and random.random() < self.share:
                del words[place]
                gaps[place : place + 2] = [_closed(gaps, place)]


def _closed(gaps: list[str], place: int) -> str:
    """Merge the gaps around a deleted word: keep punctuation, but no double spaces, and nothing after a first word.

    A gap may contain protected words. They are kept.
    """
    before, after = gaps[place], gaps[place + 1]
    if place == 0 and not before and _WORD.search(after):
        return after.lstrip()
    if place == 0 and len(gaps) > 2 and not _WORD.search(after):
        return before
    if not after.strip():
        return before if after else before.rstrip()  # no space at the end of the text
    return before.rstrip() + after if before.strip() else after


def _joined(words: list[str], gaps: list[str]) -> str:
    parts = [""] * (len(words) + len(gaps))
    parts[::2], parts[1::2] = gaps, words
    return "".join(parts)


def _with_case_of(model: str, word: str) -> str:
    if model.isupper() and len(model) > 1:
        return word.upper()
    return word[0].upper() + word[1:] if model[0].isupper() else word
