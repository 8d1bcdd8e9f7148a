"""Labels of new rows: computed from those of the parents, or predicted by a teacher."""

from typing import Any

import numpy as np
import pytest

from linda.augmentation.label_rules import interpolated, predicted, sharpened
from linda.errors import LindaError
from linda.planning.labels import rounded

Y = np.array([[0.7, 0.2, 0.1], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])


def test_alpha_weighs_the_first_label() -> None:
    first, second = np.array([[1.0, 0.0]] * 3), np.array([[0.0, 1.0]] * 3)
    mixed = interpolated(first, second, np.array([1.0, 0.7, 0.0]))
    assert mixed.tolist() == [[1.0, 0.0], [0.7, pytest.approx(0.3)], [0.0, 1.0]]


def test_sharpening_with_temperature_one_changes_nothing() -> None:
    assert sharpened(Y, 1.0) == pytest.approx(Y)


def test_sharpening_follows_its_formula() -> None:
    powers = Y ** (1 / 0.5)
    assert sharpened(Y, 0.5) == pytest.approx(powers / powers.sum(axis=1, keepdims=True))


def test_sharpening_ends_in_the_hard_label() -> None:
    assert sharpened(Y[:1], 1e-6).tolist() == [[1.0, 0.0, 0.0]]
    assert sharpened(Y[1:2], 1e-300).tolist() == [[0.5, 0.5, 0.0]]  # equal values stay equal, without underflow


@pytest.mark.parametrize("temperature", [0, -1, float("nan"), float("inf")])
def test_a_temperature_that_is_not_above_zero_is_refused(temperature: float) -> None:
    with pytest.raises(LindaError, match="above 0"):
        sharpened(Y, temperature)


def test_written_labels_have_no_float_dust() -> None:
    assert rounded(interpolated(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]), np.array([0.7312]))) == [
        [0.7312, 0.2688]
    ]


class Teacher:
    def __init__(self, classes: list[Any] | None, answer: list[float]) -> None:
        self.answer = answer
        if classes is not None:
            self.classes_ = np.array(classes)

    def predict_proba(self, texts: list[str]) -> np.ndarray:
        return np.array([self.answer] * len(texts))


def test_a_teacher_may_order_its_classes_otherwise() -> None:
    labels = predicted(Teacher(["b", "a"], [0.9, 0.1]), ("a", "b"), ["text"])
    assert labels.tolist() == [[0.1, 0.9]]


def test_a_class_that_the_teacher_never_saw_has_no_probability() -> None:
    assert predicted(Teacher(["a"], [1.0]), ("a", "b"), ["text"]).tolist() == [[1.0, 0.0]]


def test_a_teacher_without_names_is_taken_in_order() -> None:
    assert predicted(Teacher(None, [0.4, 0.6]), ("a", "b"), ["text"]).tolist() == [[0.4, 0.6]]


def test_a_teacher_of_other_labels_is_refused() -> None:
    with pytest.raises(LindaError, match="'c'"):
        predicted(Teacher(["a", "c"], [0.5, 0.5]), ("a", "b"), ["text"])
    with pytest.raises(LindaError, match="shape"):
        predicted(Teacher(None, [1.0]), ("a", "b"), ["text"])
