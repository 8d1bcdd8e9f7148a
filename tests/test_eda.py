import re

import pytest

from linda import methods
from linda.errors import LindaError
from linda.methods.eda import Eda
from linda.methods.synonyms import synonyms

TEXT = '"What is the capital of France?", he asked; nobody (but Mary) knew.'


def changed(text: str, seeds: int = 200, **settings: float) -> list[str]:
    return Eda(**settings).texts([text] * seeds, None, None, range(seeds))


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def test_synonyms_of_base_irregular_and_inflected_forms() -> None:
    assert "movie" in synonyms("film")
    assert "film" not in synonyms("film")
    assert "inquiry" in synonyms("questions")
    assert "travel" in synonyms("went")
    assert "glad" in synonyms("happier")
    assert synonyms("xyzzy") == ()


def test_a_row_depends_on_its_seed_alone() -> None:
    eda = Eda()
    texts, seeds = [TEXT, "A good film, all in all.", TEXT], [3, 4, 5]
    assert eda.texts(texts, None, None, seeds) == [
        eda.texts([t], None, None, [s])[0] for t, s in zip(texts, seeds, strict=True)
    ]
    assert len(set(changed(TEXT))) > 50


def test_every_text_is_changed_but_keeps_its_punctuation() -> None:
    punctuation = re.sub(r"[\w\s'-]", "", TEXT)
    for text in changed(TEXT):
        assert text != TEXT
        assert re.sub(r"[\w\s'-]", "", text) == punctuation or len(words(text)) < len(words(TEXT))
        assert text.endswith(".")
        assert "  " not in text


def test_all_four_changes_occur() -> None:
    before = words(TEXT)
    replaced = inserted = swapped = deleted = 0
    for text in changed(TEXT):
        after = words(text)
        deleted += len(after) < len(before) and set(after) < set(before)
        swapped += sorted(after) == sorted(before)
        inserted += len(after) > len(before) and set(before) < set(after)
        replaced += set(before) - set(after) != set() and set(after) - set(before) != set()
    assert min(replaced, inserted, swapped, deleted) > 20


def test_case_is_kept() -> None:
    for text in changed("FILM", seeds=20):
        assert text != "FILM"
        assert text.isupper() or " " in text
    starts = {text[0] for text in changed("Film", seeds=20)}
    assert any(start.isupper() for start in starts)


def test_function_words_are_not_replaced() -> None:
    assert set(changed("It is of the and", seeds=50)) - {"It is of the and"}  # but they can be swapped and deleted
    for text in changed("It is of the and", seeds=50):
        assert set(words(text)) <= {"It", "is", "of", "the", "and"}


def test_share_sets_how_much_changes() -> None:
    text = " ".join(f"word{number}" for number in range(40))  # no synonyms: only swaps and deletions

    def kept(share: float) -> float:
        return sum(a == b for out in changed(text, share=share) for a, b in zip(words(text), words(out), strict=False))

    assert kept(0.05) > kept(0.5)


@pytest.mark.parametrize("text", ["", "?!", "xyzzy", "東京の人口は", "🙂"])
def test_texts_that_cannot_be_changed_come_back(text: str) -> None:
    assert set(changed(text, seeds=10)) == {text}


def test_registry_knows_its_methods() -> None:
    assert methods.load("eda").name == "eda"
    with pytest.raises(LindaError, match="unknown method 'ede'; choose from linda, eda"):
        methods.load("ede")
    with pytest.raises(LindaError, match=r"wrong options for the method 'eda': .*beams"):
        methods.load("eda", beams=3)
    with pytest.raises(LindaError, match=r"changes is 1\.5"):
        methods.load("eda", share=1.5)
