"""EDA (Wei & Zou 2019): four simple changes to the words of a text, one of them at random.

Replace words by synonyms, insert synonyms, swap words, delete words. The original strips a text of its case and
punctuation first. Here only the words are touched: what stands between them stays where it is.
"""

import re
from collections.abc import Callable, Sequence
from random import Random

from linda.augmenters.synonyms import synonyms
from linda.errors import LindaError
from linda.measures import FUNCTION_WORDS

_WORD = re.compile(r"(\w+(?:['’-]\w+)*)")

_Change = Callable[[list[str], list[str], Random], None]  # words and gaps, changed in place


class Eda:
    """share: of the words that a change touches (at least one), and the probability of deletion for each word."""

    name = "eda"
    needs_partner = False

    def __init__(self, share: float = 0.1) -> None:
        if not 0 < share <= 1:
            raise LindaError(f"the share of words that EDA changes must be above 0 and at most 1, got {share}")
        self.share = share
        self._changes: list[_Change] = [self._replace, self._insert, self._swap, self._delete]

    def texts(
        self, a: Sequence[str], b: Sequence[str] | None, alpha: Sequence[float] | None, seeds: Sequence[int]
    ) -> list[str]:
        """b and alpha are not read: EDA changes one text at a time."""
        random = Random()  # seeded anew for every row: making one costs more than changing a short text
        texts = []
        for text, seed in zip(a, seeds, strict=True):
            random.seed(seed)
            texts.append(self._changed(text, random))
        return texts

    def _changed(self, text: str, random: Random) -> str:
        """One change at random; where it makes no difference, the next. Texts that none can change stay."""
        parts = _WORD.split(text)  # gap, word, gap, word … gap
        if len(parts) == 1:
            return text
        first = int(4 * random.random())
        for number in range(first, first + 4):
            words, gaps = parts[1::2], parts[::2]  # gaps[i] stands before words[i], the last one after all
            self._changes[number % 4](words, gaps, random)
            changed = _joined(words, gaps)
            if changed != text:
                return changed
        return text

    def _count(self, words: list[str]) -> int:
        return max(1, int(self.share * len(words)))

    def _replace(self, words: list[str], gaps: list[str], random: Random) -> None:
        """Some words, wherever they occur, by one of their synonyms: "be", "in" and "a" have none that make sense."""
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
        """Synonyms of random words at random places."""
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
            # What stood before the place stands before the new word; at the end, the final stop stays final.
            gaps.insert(place if place == len(words) - 1 else place + 1, " ")

    def _swap(self, words: list[str], gaps: list[str], random: Random) -> None:
        """Pairs of words change places."""
        if len(words) < 2:
            return
        for _ in range(self._count(words)):
            first = int(len(words) * random.random())
            second = (first + 1 + int((len(words) - 1) * random.random())) % len(words)  # never the first again
            words[first], words[second] = words[second], words[first]

    def _delete(self, words: list[str], gaps: list[str], random: Random) -> None:
        """Each word with a small probability; never the last one left."""
        for place in reversed(range(len(words))):
            if len(words) > 1 and random.random() < self.share:
                del words[place]
                gaps[place : place + 2] = [_closed(gaps, place)]


def _closed(gaps: list[str], place: int) -> str:
    """One gap for the two around a deleted word: punctuation stays, doubled space and an orphaned start do not."""
    before, after = gaps[place], gaps[place + 1]
    if place == 0 and len(gaps) > 2:
        return before
    if not after.strip():
        return before
    return before.rstrip() + after if before.strip() else after


def _joined(words: list[str], gaps: list[str]) -> str:
    parts = [""] * (len(words) + len(gaps))
    parts[::2], parts[1::2] = gaps, words
    return "".join(parts)


def _with_case_of(model: str, word: str) -> str:
    if model.isupper() and len(model) > 1:
        return word.upper()
    return word[0].upper() + word[1:] if model[0].isupper() else word
