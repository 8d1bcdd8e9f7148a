import pytest

from linda.errors import LindaError
from linda.measures.pairs import draw_pairs

SENTENCES = [f"sentence {number}" for number in range(10)]


def test_no_sentence_meets_itself_and_none_comes_twice_before_all_came_once():
    pairs = draw_pairs([*SENTENCES, "sentence 0"], 12)
    assert all(a != b for a, b in pairs)
    assert sorted(text for pair in pairs[:5] for text in pair) == SENTENCES
    assert len(pairs) == 12


def test_pairs_depend_on_the_seed_alone():
    assert draw_pairs(SENTENCES, 7, seed=3) == draw_pairs(iter(SENTENCES), 7, seed=3)
    assert draw_pairs(SENTENCES, 5, seed=3) != draw_pairs(SENTENCES, 5, seed=4)


def test_too_few_sentences_are_an_error():
    with pytest.raises(LindaError, match="got 1"):
        draw_pairs(["same", "same"], 3)
    with pytest.raises(LindaError, match="0"):
        draw_pairs(SENTENCES, 0)
