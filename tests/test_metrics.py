import numpy as np
import pytest

from linda.errors import LindaError
from linda.evaluation.metrics import METRICS, calibration_error, find_metric, score_probabilities
from linda.evaluation.tuning import scaled

# Two rows of each of three classes; the fourth row is wrong.
PROBABILITIES = np.array(
    [[0.8, 0.1, 0.1], [0.6, 0.3, 0.1], [0.1, 0.7, 0.2], [0.5, 0.4, 0.1], [0.1, 0.1, 0.8], [0.2, 0.2, 0.6]]
)
CODES = np.array([0, 0, 1, 1, 2, 2])
CLASSES = ["a", "b", "c"]


def test_every_metric_by_hand() -> None:
    found = score_probabilities(PROBABILITIES, CODES, CLASSES)
    assert set(found) == set(METRICS)
    assert found["accuracy"] == pytest.approx(100 * 5 / 6, abs=1e-4)
    assert found["balanced_accuracy"] == pytest.approx(100 * 5 / 6, abs=1e-4)
    assert found["macro_f1"] == pytest.approx(100 * (4 / 5 + 2 / 3 + 1) / 3, abs=1e-4)
    assert found["auc"] == pytest.approx(100.0)  # in every column the right class has the highest two
    assert found["average_precision"] == pytest.approx(100.0)
    assert found["log_loss"] == pytest.approx(-np.log([0.8, 0.6, 0.7, 0.4, 0.8, 0.6]).mean(), abs=1e-4)
    assert found["brier"] == pytest.approx(100 * np.mean([0.06, 0.26, 0.14, 0.62, 0.06, 0.24]) / 2, abs=1e-3)
    assert found["accuracy_at_80"] == 100  # the wrong row is the least certain of six, and five are kept
    assert found["error_auroc"] == 100


def test_scores_agree_with_scikit_learn_on_random_predictions() -> None:
    from sklearn import metrics

    random = np.random.default_rng(0)
    probabilities, codes = random.dirichlet([1, 1, 1, 1], 300), random.integers(4, size=300)
    found = score_probabilities(probabilities, codes, list("abcd"))
    chosen = probabilities.argmax(axis=1)
    expected = {
        "accuracy": metrics.accuracy_score(codes, chosen),
        "macro_f1": metrics.f1_score(codes, chosen, average="macro"),
        "balanced_accuracy": metrics.balanced_accuracy_score(codes, chosen),
        "auc": metrics.roc_auc_score(codes, probabilities, multi_class="ovr"),
        "average_precision": metrics.average_precision_score(np.eye(4)[codes], probabilities),
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(100 * value, abs=1e-4)
    binary = score_probabilities(probabilities[:, :2], codes % 2, ["a", "b"])
    share = probabilities[:, 1] / probabilities[:, :2].sum(axis=1)
    assert binary["brier"] == pytest.approx(100 * metrics.brier_score_loss(codes % 2, share), abs=1e-4)
    assert binary["auc"] == pytest.approx(100 * metrics.roc_auc_score(codes % 2, share), abs=1e-4)


def test_calibration_error() -> None:
    sure = np.array([[0.9, 0.1]] * 10)
    assert calibration_error(sure, np.array([0] * 9 + [1])) == pytest.approx(0)
    assert calibration_error(sure, np.array([0] * 5 + [1] * 5)) == pytest.approx(0.4)
    assert calibration_error(np.array([[1.0, 0.0]]), np.array([1])) == 1


def test_selection_by_certainty() -> None:
    confidence = [0.9, 0.6, 0.8, 0.6, 0.7]
    probabilities = np.array([[p, 1 - p] for p in confidence])
    # Rows 1 and 3 are equally certain: the later one is rejected.
    first, later = (
        score_probabilities(probabilities, np.array(codes), ["a", "b"]) for codes in ([0, 1, 0, 0, 0], [0, 0, 0, 1, 0])
    )
    assert (first["accuracy"], first["accuracy_at_80"]) == (80, 75)
    assert (later["accuracy"], later["accuracy_at_80"]) == (80, 100)
    assert first["error_auroc"] == later["error_auroc"] == pytest.approx(100 * 3.5 / 4)
    reverse = score_probabilities(probabilities, np.array([1, 0, 0, 0, 0]), ["a", "b"])
    assert (reverse["accuracy_at_80"], reverse["error_auroc"]) == (75, 0)


def test_a_temperature_does_not_change_the_selection_with_two_classes() -> None:
    random = np.random.default_rng(0)
    probabilities, codes = random.dirichlet([1, 1], 100), random.integers(2, size=100)
    plain, cooled = (score_probabilities(p, codes, ["a", "b"]) for p in (probabilities, scaled(probabilities, 2.5)))
    assert plain["log_loss"] != cooled["log_loss"]
    for name in ("accuracy_at_80", "error_auroc"):
        assert plain[name] == cooled[name]


@pytest.mark.parametrize("code", [0, 1])
def test_error_auroc_is_missing_if_all_or_no_predictions_are_right(code: int) -> None:
    found = score_probabilities(np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([code, code]), ["a", "b"])
    assert found["accuracy"] == found["accuracy_at_80"] == (0 if code else 100)
    assert "error_auroc" not in found


def test_a_certain_mistake_costs_much_but_not_infinitely() -> None:
    found = score_probabilities(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1, 1]), ["a", "b"])
    assert 5 < found["log_loss"] < 20


def test_rare_classes_have_precision_and_recall() -> None:
    found = score_probabilities(PROBABILITIES, CODES, CLASSES, rare=["b"])
    assert found["precision:b"] == 100
    assert found["recall:b"] == 50
    assert found["average_precision:b"] == pytest.approx(100)
    nothing = score_probabilities(PROBABILITIES[:2], CODES[:2], CLASSES, rare=["b"])
    assert nothing["recall:b"] == 0
    assert not {"auc", "average_precision", "average_precision:b"} & set(nothing)  # undefined with one class


def test_metrics_by_name() -> None:
    assert find_metric("log_loss").lower_is_better
    assert find_metric("macro_f1_tuned").name == "macro_f1_tuned"
    assert find_metric("recall:ABBR").shown(12.345) == "12.3"
    for name in ("f1", "auc_tuned", "recall", "brier:a", "accuracy_at_80_tuned"):
        with pytest.raises(LindaError, match=f"unknown metric '{name}'; choose from accuracy, macro_f1"):
            find_metric(name)
