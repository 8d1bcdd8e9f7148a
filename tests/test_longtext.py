"""Long texts: sentences are split, paired by position and joined, without losing a character."""

import math
import time

import pytest

from linda.interpolation.longtext import Part, align_sentences, split_sentences, split_to_window


def count_words(text: str) -> int:
    """A tokenizer with four characters per token, and an end token."""
    return 1 + sum(math.ceil(len(word) / 4) for word in text.split())


def joined(texts: list[str], parts: list[Part]) -> str:
    return "".join(text + part.gap for text, part in zip(texts, parts, strict=True))


TEXTS = [
    "One. Two! Three? Four",
    "  Dr. Smith met J. R. Jones of the U.S. Army at 3.14 p.m. today.  He left.\n\nA new\nparagraph.",
    "これは一つ目の文です。二つ目！「三つ目。」四つ目",
    "Wait... what?! (Really?) \"Yes.\" 'No.' Fine…",
    "no end at all",
    "word " * 300,
    "x" * 500,
    "漢字" * 200,
    "\n\n\n. . . !\n\n ",
    "👩‍👩‍👧‍👦 " * 40 + "end.",
]


@pytest.mark.parametrize("text", TEXTS)
def test_nothing_is_lost(text: str) -> None:
    assert "".join(split_sentences(text)) == text
    assert "".join(split_to_window(text, count_words, window=16)) == text


def test_a_long_text_without_an_end_is_looked_at_little_by_little() -> None:
    looked_at = 0

    def counted(text: str) -> int:
        nonlocal looked_at
        looked_at += len(text)
        return count_words(text)

    text = "word " * 20_000
    assert "".join(split_to_window(text, counted, window=64)) == text
    assert looked_at < 100 * len(text)  # not quadratic


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Dr. Smith left. He ran.", ["Dr. Smith left.", "He ran."]),
        ("J. R. Jones of the U.S. Army won. He ran.", ["J. R. Jones of the U.S. Army won.", "He ran."]),
        ("So did I. Then he left.", ["So did I.", "Then he left."]),
        ("It costs 3.14 dollars. Fine.", ["It costs 3.14 dollars.", "Fine."]),
        ("Wait... what?! No.", ["Wait... what?!", "No."]),
        ("all in small letters. like this! and this", ["all in small letters.", "like this!", "and this"]),
        ('"Go!" he said. "Why?" She went.', ['"Go!" he said.', '"Why?"', "She went."]),
        ('He said "Go." She went.', ['He said "Go."', "She went."]),
        ("A title\n\nA text.", ["A title", "A text."]),
        ("Made by Acme Inc.\n\nA text.", ["Made by Acme Inc.", "A text."]),
        ("wrapped\nlines are one.", ["wrapped\nlines are one."]),
        ("一つ目。二つ目！三つ目", ["一つ目。", "二つ目！", "三つ目"]),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert [sentence.strip() for sentence in split_sentences(text)] == sentences


@pytest.mark.parametrize("text", TEXTS)
def test_every_piece_fits_the_window_and_has_content(text: str) -> None:
    for piece in split_to_window(text, count_words, window=16):
        assert piece.strip()
        assert count_words(piece.strip()) <= 16


def test_a_long_sentence_is_cut_between_words_into_full_windows() -> None:
    pieces = split_to_window("word " * 100, count_words, window=11)
    assert pieces == ["word " * 10] * 10


def test_one_word_beyond_the_window_is_cut_inside() -> None:
    assert split_to_window("x" * 100, count_words, window=11) == ["x" * 40, "x" * 40, "x" * 20]


def test_partners_by_relative_position() -> None:
    a = ["a1 ", "a2 ", "a3 ", "a4"]
    b = ["b1 ", "b2"]
    partners = [part.texts for part in align_sentences([a, b], 3, [0.5, 0.5])]
    assert partners == [("a1", "b1"), ("a3", "b2"), ("a4", "b2")]


@pytest.mark.parametrize("text", [text for text in TEXTS if text.strip()])
@pytest.mark.parametrize("first", [True, False])
def test_all_of_one_text_is_that_text(text: str, first: bool) -> None:
    own, other = split_to_window(text, count_words, 16), split_sentences("B one. B two. B three.")
    a, b = (own, other) if first else (other, own)
    parts = align_sentences([a, b], len(own), [float(first), float(not first)])
    texts = [part.texts[not first] for part in parts]
    assert joined(texts, parts) == text.strip()


def test_paragraphs_of_the_leading_text_are_kept() -> None:
    a = split_sentences("One.\n\nTwo. Three.")
    b = split_sentences("Uno. Due. Tre.")
    parts = align_sentences([a, b], 3, [0.7, 0.3])
    assert joined([part.texts[0] for part in parts], parts) == "One.\n\nTwo. Three."


def test_a_short_text_used_again_is_not_glued() -> None:
    parts = align_sentences([["Only."], split_sentences("Uno. Due. Tre.")], 3, [0.9, 0.1])
    assert joined([part.texts[0] for part in parts], parts) == "Only. Only. Only."


@pytest.mark.parametrize("unit", ["." * 10, " ", "\n \n", '!"', "Mr. A. ", "No. a ", "x", "。", "no end "])
def test_hostile_texts_cost_no_more_than_their_length(unit: str) -> None:
    def seconds(length: int) -> float:
        text = unit * (length // len(unit))
        started = time.process_time()
        split_sentences(text)
        return time.process_time() - started

    assert seconds(400_000) < 20 * max(seconds(50_000), 0.005)  # quadratic time would be 64 times as long
