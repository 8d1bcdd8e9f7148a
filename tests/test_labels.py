"""Labels are distributions over the sorted label set, read from data."""

from typing import Any

import numpy as np
import pytest

from linda.errors import LindaError
from linda.planning.labels import LabelReader, Labels, soft_label

Y = np.array([[0.7, 0.2, 0.1], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])


def read(values: list[Any], classes: list[Any] | None = None) -> Labels:
    reader = LabelReader(classes)
    for row, value in enumerate(values):
        reader.add(value, f"row {row}")
    return reader.labels(lambda rows: [values[row] for row in rows])


def test_hard_labels_take_the_largest_and_the_first_of_equals() -> None:
    assert read([]).hard(Y).tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["b", "a", "b"], ("a", "b")),
        ([3, 1, 3], (1, 3)),
        ([True, False, True], (False, True)),
        ([2.0, 1.0, 2.0], (1.0, 2.0)),
        ([np.int8(3), np.int8(1), np.int8(3)], (1, 3)),
        (["🙂", "b", "🙂"], ("b", "🙂")),
    ],
)
def test_labels_keep_their_type_and_are_sorted(values: list[Any], names: tuple[Any, ...]) -> None:
    labels = read(values)
    assert labels.names == names
    assert [type(name) for name in labels.names] == [type(name) for name in names]
    assert labels.codes.tolist() == [1, 0, 1]
    assert labels.distributions(np.array([0, 1])).tolist() == [[0, 1], [1, 0]]


def test_rows_left_out_have_no_class() -> None:
    reader = LabelReader()
    reader.add("b", "row 0")
    reader.skip()
    reader.add("a", "row 2")
    labels = reader.labels(lambda rows: [])
    assert labels.codes.tolist() == [1, -1, 0]
    assert labels.counts() == {"a": 1, "b": 1}


@pytest.mark.parametrize("soft", [[0.25, 0.75], (0.25, 0.75), np.array([0.25, 0.75]), "[0.25, 0.75]"])
def test_soft_labels_may_be_lists_or_their_json(soft: Any) -> None:
    labels = read([soft, soft])
    assert labels.names == (0, 1)
    assert labels.codes.tolist() == [1, 1]
    assert labels.distributions(np.array([0])).tolist() == [[0.25, 0.75]]


def test_soft_labels_may_have_names() -> None:
    assert read([[0.25, 0.75]], ["no", "yes"]).names == ("no", "yes")


def test_a_label_that_only_looks_like_a_list_is_a_text() -> None:
    assert soft_label("[urgent]") is None
    assert read(["[urgent]", "[late]"]).names == ("[late]", "[urgent]")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", None], "row 1: the label is missing"),
        (["a", ""], "row 1: the label is missing"),
        ([1.0, float("nan")], "row 1: the label is missing"),
        ([1, "a"], "row 1: .*'a'.*str.*int"),
        ([1, True], "row 1: .*bool.*int"),
        ([0.5], r"row 0: the label 0\.5 is not a class; use a string"),
        ([{"a": 1}], "row 0"),
        ([[0.5, 0.5], [1.0]], "row 1: 1 probabilities, expected 2"),
        ([[0.5, 0.6]], "row 0: .*sum to 1"),
        ([[-0.5, 1.5]], "row 0: .*≥ 0"),
        ([[float("nan"), 1.0]], "row 0"),
        ([[0.5, 0.5], "a"], "row 1: .*list"),
    ],
)
def test_bad_labels_are_told_with_their_row(values: list[Any], message: str) -> None:
    with pytest.raises(LindaError, match=message):
        read(values)


def test_a_label_outside_the_given_set_is_refused() -> None:
    with pytest.raises(LindaError, match=r"row 1: the label 'c' is not one of 'a', 'b'"):
        read(["a", "c"], ["a", "b"])
