"""Texts longer than the model's window: the alignment of the length converter, applied to sentences.

If any of the texts is longer than the window, all are split into sentences, mixed sentence by sentence and joined
again. Nothing is truncated.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# A sentence ends after . ! ? … (and closing quotes or brackets) before white space, after a full-width stop even
# without white space, and at an empty line. The look-behind avoids quadratic time on a long row of dots.
_SENTENCE_END = re.compile(
    r"""(?<![.!?…])[.!?…]+["'”’»)\]]*\s+ | [。！？｡]+["'”’»）」』】]*\s* | (?P<empty_line>\n[^\S\n]*\n\s*)""",
    re.VERBOSE,
)
_ABBREVIATIONS = re.compile(
    r"mrs?|ms|dr|prof|st|sr|jr|vs|etc|inc|ltd|co|corp|gen|col|capt|lt|sgt|rev|hon|vol|fig|eq|pp|ca|cf|al",
    re.I,
)
_LONGEST_ABBREVIATION = 32  # number of characters to look back
_INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")  # J., U.S., e.g.


@dataclass(frozen=True)
class Part:
    """The sentences to mix to one output sentence, one from each text, and the white space after the output."""

    texts: tuple[str, ...]
    gap: str


def split_sentences(text: str) -> list[str]:
    """Split into sentences with their trailing white space; joined, they are exactly the text."""
    sentences = []
    start = 0
    for match in _SENTENCE_END.finditer(text):
        end = match.end()
        if match["empty_line"]:
            ends = bool(text[start:end].strip())
        else:
            before = text[max(start, match.start() - _LONGEST_ABBREVIATION) : match.start()]
            ends = match.group().count("\n") > 1 or not _continues(before, match.group(), text[end : end + 1])
        if ends:
            sentences.append(text[start:end])
            start = end
    rest = text[start:]
    if rest.strip() or not sentences:
        sentences.append(rest)
    else:
        sentences[-1] += rest
    return sentences


def split_to_window(text: str, count_tokens: Callable[[str], int], window: int) -> list[str]:
    """Split into sentences of at most `window` tokens; longer ones at white space, longer words anywhere."""
    pieces = []
    for sentence in split_sentences(text):
        start, end = 0, -1
        while end < len(sentence):
            end = _longest_piece(sentence, start, count_tokens, window)
            pieces.append(sentence[start:end])
            start = end
    return pieces


def align_sentences(texts: Sequence[list[str]], count: int, weights: Sequence[float]) -> list[Part]:
    """Align sentences for `count` parts: part j uses the sentence of each text at the same relative position.

    If a text has `count` sentences, part j uses sentence j, so a text with weight 1 is reproduced. The white space
    between sentences is that of the text with the largest weight.
    """
    leading = max(range(len(texts)), key=lambda t: weights[t])
    parts = []
    for j in range(count):
        places = [len(sentences) * (2 * j + 1) // (2 * count) for sentences in texts]
        gap = _gap_after(texts[leading], places[leading]) if j < count - 1 else ""
        parts.append(Part(tuple(text[place].strip() for text, place in zip(texts, places, strict=True)), gap))
    return parts


def _gap_after(sentences: list[str], index: int) -> str:
    if index == len(sentences) - 1:
        return " "  # the last sentence may be used again if the other text is longer
    sentence = sentences[index]
    return sentence[len(sentence.rstrip()) :]


def _continues(before: str, stop: str, following: str) -> bool:
    """Whether the sentence continues: the stop belongs to an abbreviation, or a lower-case letter follows."""
    if stop.rstrip() != ".":
        return following.islower() and stop.rstrip() not in ("!", "?")
    word = re.split(r"[\s\"'“‘(\[]", before)[-1]
    return bool(_ABBREVIATIONS.fullmatch(word) or (word != "I" and _INITIALS.fullmatch(word)))


def _longest_piece(text: str, start: int, count_tokens: Callable[[str], int], window: int) -> int:
    """Return the end of the longest piece from `start` that fits the window, preferably at white space.

    Tokenizes at most about twice what fits: a text without sentence ends may be megabytes long.
    """

    def fits(end: int) -> bool:
        return count_tokens(text[start:end].strip()) <= window

    low, high = start + 1, min(start + window, len(text))
    while fits(high):
        if high == len(text):
            return high
        low, high = high, min(start + 2 * (high - start), len(text))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    spaces = [start + match.end() for match in re.finditer(r"\s+", text[start:low])]
    for end in reversed(spaces):
        if text[start:end].strip() and fits(end):
            return end
    return low
