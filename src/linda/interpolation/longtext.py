"""Texts longer than the model's window: the length converter's idea, one level up, on sentences.

A model reads at most a window of tokens. Two texts of which either is longer are split into sentences,
mixed sentence by sentence and joined again; nothing is cut off.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

# A sentence ends after . ! ? … (and what closes a quotation or bracket) before white space, after a
# full-width stop even without one, and at an empty line. The look-behind keeps a long row of dots from
# costing its square.
_SENTENCE_END = re.compile(
    r"""(?<![.!?…])[.!?…]+["'”’»)\]]*\s+ | [。！？｡]+["'”’»）」』】]*\s* | (?P<empty_line>\n[^\S\n]*\n\s*)""",
    re.VERBOSE,
)
_ABBREVIATIONS = re.compile(
    r"mrs?|ms|dr|prof|st|sr|jr|vs|etc|inc|ltd|co|corp|gen|col|capt|lt|sgt|rev|hon|vol|fig|eq|pp|ca|cf|al",
    re.I,
)
_LONGEST_ABBREVIATION = 32  # characters to look back at: what stands before cannot matter
_INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")  # J., U.S., e.g.


@dataclass(frozen=True)
class Part:
    """One output sentence: the two sentences to mix, and the white space that follows the result."""

    a: str
    b: str
    gap: str


def split_sentences(text: str) -> list[str]:
    """Sentences with the white space that follows them: joined, they are the text again, to the character."""
    sentences = []
    start = 0
    for match in _SENTENCE_END.finditer(text):
        end = match.end()
        if match["empty_line"]:
            ends = bool(text[start:end].strip())
        else:
            before = text[max(start, match.start() - _LONGEST_ABBREVIATION) : match.start()]
            ends = match.group().count("\n") > 1 or not _goes_on(before, match.group(), text[end : end + 1])
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
    """Sentences of at most `window` tokens; a longer one is cut at white space, a longer word within."""
    pieces = []
    for sentence in split_sentences(text):
        start, end = 0, -1
        while end < len(sentence):
            end = _longest_piece(sentence, start, count_tokens, window)
            pieces.append(sentence[start:end])
            start = end
    return pieces


def pair_sentences(a: list[str], b: list[str], count: int, alpha: float) -> list[Part]:
    """`count` parts; the j-th takes from each text the sentence that stands where the j-th's middle falls.

    With as many sentences as the text has, each meets itself: α=1 goes through a, α=0 through b, in order.
    The white space between sentences is that of the text with the greater share.
    """
    parts = []
    for j in range(count):
        i_a, i_b = (len(sentences) * (2 * j + 1) // (2 * count) for sentences in (a, b))
        gap = _gap_after(a, i_a) if alpha >= 0.5 else _gap_after(b, i_b)
        parts.append(Part(a[i_a].strip(), b[i_b].strip(), gap if j < count - 1 else ""))
    return parts


def _gap_after(sentences: list[str], index: int) -> str:
    if index == len(sentences) - 1:
        return " "  # the last sentence may be used again where the other text is longer
    sentence = sentences[index]
    return sentence[len(sentence.rstrip()) :]


def _goes_on(before: str, stop: str, following: str) -> bool:
    """Whether the stop is an abbreviation's; or an ellipsis or a quotation's end, and a small letter follows."""
    if stop.rstrip() != ".":
        return following.islower() and stop.rstrip() not in ("!", "?")
    word = re.split(r"[\s\"'“‘(\[]", before)[-1]
    return bool(_ABBREVIATIONS.fullmatch(word) or (word != "I" and _INITIALS.fullmatch(word)))


def _longest_piece(text: str, start: int, count_tokens: Callable[[str], int], window: int) -> int:
    """Where the longest piece from `start` that fits the window ends, moved back to white space if any.

    Only twice as much as fits is ever looked at: a text without a sentence's end may be megabytes long.
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
