"""Every text and label is checked once, before anything is made."""

from typing import Any

import pytest

from linda.errors import LindaError
from linda.planning.examples import Examples, ListTable, read_examples

GOOD: dict[str, list[Any]] = {"text": ["a cat", "a dog"], "label": [0, 1], "id": [7, 8]}


def read(lists: dict[str, list[Any]], **options: Any) -> Examples:
    return read_examples(ListTable(lists), **options)


def test_rows_are_fetched_in_the_order_asked_for() -> None:
    examples = read({**GOOD, "second": ["it purrs", "it barks"]}, pair="second")
    assert examples.fetch([1, 0, 1]) == [("a dog", "it barks"), ("a cat", "it purrs"), ("a dog", "it barks")]
    assert list(read(GOOD).scan()) == [(0, ("a cat",)), (1, ("a dog",))]


def test_rows_without_text_are_skipped_only_when_asked() -> None:
    lists = {"text": ["a cat", "", None, float("nan"), "a dog"], "label": ["x", "y", None, "y", "y"]}
    with pytest.raises(LindaError, match="row 1: 'text' is empty"):
        read(lists)
    examples = read(lists, skip_empty=True)
    assert examples.labels.codes.tolist() == [0, -1, -1, -1, 1]
    assert examples.skipped == 3
    assert [row for row, _ in examples.scan()] == [0, 4]
    assert "3 rows without text" in examples.notes[0]


def test_one_class_is_allowed_and_told() -> None:
    assert "'x'" in read({"text": ["a", "b"], "label": ["x", "x"]}).notes[0]


@pytest.mark.parametrize(
    ("lists", "options", "message"),
    [
        (GOOD, {"text": "txt"}, "no column 'txt'; the data has 'text', 'label', 'id'"),
        (GOOD, {"label": "text"}, "different columns"),
        ({**GOOD, "text": ["a cat", 5]}, {}, "row 1: 'text' is 5, not a text"),
        ({**GOOD, "text": ["a cat", "\ud800"]}, {}, "row 1: 'text' contains a lone surrogate"),
        ({**GOOD, "label": [0, None]}, {}, "row 1: the label is missing"),
        ({**GOOD, "alpha": [1, 2]}, {}, "'alpha'.*rename"),
        ({**GOOD, "text": ["a cat"]}, {}, "differ in length: text 1, label 2"),
        ({**GOOD, "pair": ["x", " "]}, {"pair": "pair"}, "row 1: 'pair' is empty"),
    ],
)
def test_bad_data_is_told(lists: dict[str, list[Any]], options: dict[str, Any], message: str) -> None:
    with pytest.raises(LindaError, match=message):
        read(lists, **options)
