"""Where each word of a text comes from: the first text, the second, both or neither."""

from linda.measures import word_spans

# A piece of the text and its origin; spaces and punctuation have none.
Piece = tuple[str, str | None]


def word_origins(text: str, a: str, b: str) -> list[Piece]:
    """Split a text into consecutive pieces with their origins.

    >>> word_origins("A cat.", "the cat", "a dog")
    [('A', 'b'), (' ', None), ('cat', 'a'), ('.', None)]
    """
    words_a, words_b = _words(a), _words(b)
    pieces: list[Piece] = []
    position = 0
    for start, end in word_spans(text):
        if start > position:
            pieces.append((text[position:start], None))
        pieces.append((text[start:end], _origin(text[start:end].casefold(), words_a, words_b)))
        position = end
    if position < len(text):
        pieces.append((text[position:], None))
    return pieces


def _words(text: str) -> set[str]:
    return {text[start:end].casefold() for start, end in word_spans(text)}


def _origin(word: str, words_a: set[str], words_b: set[str]) -> str:
    if word in words_a:
        return "both" if word in words_b else "a"
    return "b" if word in words_b else "neither"
