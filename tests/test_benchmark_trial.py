"""One cell from rows to scores, with every student and method."""

import gzip
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linda.benchmark import models, trial
from linda.benchmark.cells import Cell
from linda.benchmark.grid import make_grid
from linda.benchmark.protocol import Protocol
from linda.benchmark.recipes import Training, parse_recipe
from linda.benchmark.run_cache import clear_run_caches
from linda.benchmark.settings import BenchmarkSettings
from linda.benchmark.tasks import LabelledRows, NamedTask, OwnTask
from linda.benchmark.trial import run_cell
from linda.classifier import TextClassifier, vectors
from linda.classifier.encoder import SentenceEncoder
from linda.classifier.students import StudentSettings, make_student
from linda.errors import LindaError
from linda.evaluation.metrics import METRICS
from tiny_encoder import save_tiny_bert

THINGS = ["film", "city", "man", "number", "book", "river", "house", "road"]
PLACES = ["far", "in the city", "of the man", "in a film", "over there"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny_bert(tmp_path_factory.mktemp("tiny") / "bert"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> OwnTask:
    folder = tmp_path_factory.mktemp("data")
    lines = [f"the {a} {b} is {c},{c}" for a in THINGS for b in PLACES for c in ("good", "bad")]
    for name in ("train", "test"):
        (folder / f"{name}.csv").write_text("\n".join(["text,label", *lines]) + "\n")
    return OwnTask("toy", folder / "train.csv", folder / "test.csv")


def settings(encoder: str, student: str, **more: Any) -> BenchmarkSettings:
    return BenchmarkSettings(encoder, 1e-2, 4, 2, max_length=32, student=student, **more)


RARE = Protocol(imbalance=(6, 30), rare="good")


@pytest.mark.parametrize("student", ["finetune", "probe", "setfit", "tfidf"])
def test_every_cell_has_every_metric(student: str, encoder: str, source: OwnTask) -> None:
    result = run_cell(Cell(source, RARE, parse_recipe("vanilla"), 0), settings(encoder, student, folds=2))
    scores = result["scores"]["test"]
    assert set(METRICS) <= set(scores)
    assert {"macro_f1_tuned", "recall:good", "precision:good", "average_precision:good"} <= set(scores)
    assert result["rare_classes"] == ["good"]
    assert (result["imbalance"], result["rows"]) == ((6, 30), 36)
    assert result["settings"]["student"] == student
    assert ("encoder" in result["settings"]) == (student != "tfidf")
    assert ("learning_rate" in result["settings"]) == (student == "finetune")


def test_without_folds_nothing_is_tuned(encoder: str, source: OwnTask) -> None:
    assert settings(encoder, "finetune").n_folds == settings(encoder, "setfit").n_folds == 0
    assert settings(encoder, "probe").n_folds == settings(encoder, "tfidf").n_folds == 5
    result = run_cell(Cell(source, RARE, parse_recipe("vanilla"), 0), settings(encoder, "tfidf", folds=0))
    assert not [name for name in result["scores"]["test"] if name.endswith("_tuned")]
    with pytest.raises(LindaError, match="folds is 1; give 0 for none, or at least 2"):
        settings(encoder, "tfidf", folds=1)


def test_a_temperature_has_folds_of_its_own_if_every_fold_is_slow(encoder: str, source: OwnTask) -> None:
    given = settings(encoder, "finetune")
    cells = make_grid([(source, [RARE])], [parse_recipe("vanilla"), parse_recipe("temperature")], [0], given)
    plain, scaled = (run_cell(cell, given) for cell in cells)
    assert (plain["settings"]["folds"], scaled["settings"]["folds"]) == (0, 0)
    assert scaled["settings"]["held_out_folds"] == 3
    assert plain["temperature"] is None
    assert plain["scores"]["test"].keys() == scaled["scores"]["test"].keys()
    assert plain["scores"]["test"]["auc"] == pytest.approx(scaled["scores"]["test"]["auc"], abs=0.1)
    assert plain["scores"]["test"]["log_loss"] != scaled["scores"]["test"]["log_loss"]


def test_early_stopping_takes_the_updates_with_the_lowest_loss(
    encoder: str, source: OwnTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, cell = settings(encoder, "finetune"), Cell(source, RARE, parse_recipe("early-stopping"), 0)
    losses: list[dict[float, float]] = []
    fit = TextClassifier.fit

    def noted(self: TextClassifier, *rows: Any, **more: Any) -> TextClassifier:
        fitted = fit(self, *rows, **more)
        losses.append(fitted.losses_)
        return fitted

    monkeypatch.setattr(TextClassifier, "fit", noted)
    result = run_cell(cell, given)
    *folds, last = losses
    assert (len(folds), last) == (3, {})
    best = min(folds[0], key=lambda share: sum(fold[share] for fold in folds))
    assert result["updates"] == round(best * given.student_settings(RARE, cell.recipe, 36, 0).updates)
    assert not [name for name in result["scores"]["test"] if name.endswith("_tuned")]


@pytest.mark.parametrize("student", ["probe", "tfidf"])
def test_a_cache_changes_no_score_and_saves_the_work(
    student: str, encoder: str, source: OwnTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scores(cache: str | None) -> list[dict[str, float]]:
        given = settings(encoder, student, cache=cache, folds=2)
        return [run_cell(Cell(source, RARE, parse_recipe(name), 0), given)["scores"] for name in methods]

    methods = ["vanilla", "eda+balance", "splice+balance"]
    cache = str(tmp_path / "made" / "texts.cache")
    plain, written = scores(None), scores(cache)
    assert plain == written
    clear_run_caches()
    vectors._shared.cache_clear()
    monkeypatch.setattr(models, "_load", lambda *_: pytest.fail("a text is written again"))
    monkeypatch.setattr(SentenceEncoder, "forward", lambda *_: pytest.fail("a text is encoded again"))
    assert scores(cache) == plain


@pytest.mark.parametrize(
    "method", ["class-weights", "oversample", "smote", "label-smoothing", "temperature", "eda+balance", "pseudo-label"]
)
@pytest.mark.parametrize("student", ["probe", "tfidf"])
def test_every_method_changes_the_prediction(method: str, student: str, encoder: str, source: OwnTask) -> None:
    given = settings(encoder, student, unlabelled="rest", folds=3)
    plain, changed = (
        run_cell(Cell(source, RARE, parse_recipe(name), 1), given)["scores"]["test"] for name in ("vanilla", method)
    )
    assert plain["log_loss"] != changed["log_loss"]
    if method in ("class-weights", "oversample", "smote", "eda+balance"):
        assert changed["recall:good"] >= plain["recall:good"]


def test_class_weights_and_smoothing() -> None:
    labels, weights = np.eye(2)[[0, 0, 0, 1]], np.ones(4)
    same, balanced = trial._trained_labels(labels, weights, Training(class_weights=True))
    np.testing.assert_allclose(balanced, [2 / 3, 2 / 3, 2 / 3, 2])
    np.testing.assert_array_equal(same, labels)
    soft, weights = np.array([[1, 0], [1, 0], [0.7, 0.3], [0.6, 0.4]]), np.array([1, 1, 1, 0.5])
    shared, balanced = trial._trained_labels(soft, weights, Training(class_weights=True))
    np.testing.assert_allclose((shared * balanced[:, None]).sum(axis=0), weights.sum() / 2)
    np.testing.assert_allclose(shared.sum(axis=1), 1)
    smooth, _ = trial._trained_labels(labels, weights, Training(smoothing=0.2))
    np.testing.assert_allclose(smooth[0], [0.9, 0.1])


def test_a_fold_sees_neither_held_out_rows_nor_what_was_made_of_them(
    encoder: str, source: OwnTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits: list[tuple[list[str], int]] = []

    class Listening:
        def __init__(self) -> None:
            self._student = make_student("tfidf", StudentSettings())
            self.updates = 0

        def fit(self, texts: list[str], *more: Any, **settings: Any) -> Any:
            self.texts = texts
            self._student.fit(texts, *more, **settings)

        def predict_proba(self, texts: list[str], pairs: Any = None) -> np.ndarray:
            fits.append((self.texts, len(texts)))
            if len(texts) < 80:  # a fold's, not the test set
                for text in texts:
                    assert text not in self.texts
            return self._student.predict_proba(texts)

    monkeypatch.setattr(trial, "make_student", lambda *_: Listening())
    run_cell(Cell(source, RARE, parse_recipe("oversample"), 0), settings(encoder, "tfidf", folds=3))
    assert [held_out for _, held_out in fits] == [12, 12, 12, 80]


def test_another_student_can_be_the_teacher(encoder: str, source: OwnTask, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    make = trial.make_student
    monkeypatch.setattr(trial, "make_student", lambda name, how: made.append((name, how.encoder)) or make(name, how))
    given = settings(encoder, "tfidf", teacher="probe", teacher_encoder=encoder, folds=0)
    result = run_cell(Cell(source, Protocol(shots=4), parse_recipe("eda+labels=predicted"), 7), given)
    assert made == [("probe", encoder), ("tfidf", encoder)]
    assert result["settings"]["teacher"] == "probe"
    assert result["settings"]["teacher_encoder"].startswith("bert ")
    plain = run_cell(Cell(source, Protocol(shots=4), parse_recipe("eda"), 7), given)
    assert "teacher" not in plain["settings"]


def test_a_teacher_has_the_rate_of_its_own_encoder() -> None:
    shared = BenchmarkSettings("bert", 5e-4, student="finetune")
    assert shared.for_teacher().learning_rate == 5e-4
    other = replace(shared, teacher_encoder="all-mpnet-base-v2")
    assert (other.for_teacher().learning_rate, other.for_teacher().encoder) == (3e-5, "all-mpnet-base-v2")
    assert BenchmarkSettings(student="tfidf", teacher="finetune").for_teacher().learning_rate == 1e-4


def test_unlabelled_texts_come_from_a_file_or_from_the_rest(encoder: str, source: OwnTask, tmp_path: Path) -> None:
    file = tmp_path / "texts.csv"
    file.write_text("text\nthe good house\na bad road here\n")
    cell = Cell(source, Protocol(shots=4), parse_recipe("pseudo-label"), 0)
    given = settings(encoder, "tfidf", folds=0)
    assert run_cell(cell, replace(given, unlabelled=str(file)))["new_rows"] == 2
    lines = tmp_path / "texts.txt.gz"
    lines.write_bytes(gzip.compress(b"the good house\n\na bad road here\nthe end\n"))
    assert run_cell(cell, replace(given, unlabelled=str(lines)))["new_rows"] == 3
    rest = run_cell(cell, replace(given, unlabelled="rest"))
    assert rest["new_rows"] == 8
    assert rest["settings"]["unlabelled"] == "rest"


def test_what_cannot_be_computed_is_known_beforehand(encoder: str, source: OwnTask, tmp_path: Path) -> None:
    def grid(method: str, protocol: Protocol, **more: Any) -> None:
        make_grid([(source, [protocol])], [parse_recipe(method)], [0], settings(encoder, "tfidf", **more))

    shots, labelled = Protocol(shots=4), tmp_path / "labelled.csv"
    labelled.write_text("text,label\na good man,good\n")
    (tmp_path / "empty.csv").write_text("text\n  \n")
    for arguments, message in (
        (("pseudo-label", shots, {}), "pseudo-label needs unlabelled texts: give --unlabelled FILE"),
        (("pseudo-label", Protocol(), {"unlabelled": "rest"}), "every training row is drawn"),
        (("vanilla", shots, {"unlabelled": str(labelled)}), "has the label column 'label', so its rows are labelled"),
        (("vanilla", shots, {"unlabelled": str(tmp_path / "empty.csv"), "text": "body"}), "there is no column 'body'"),
        (("vanilla", shots, {"unlabelled": str(tmp_path / "empty.csv")}), "there are no unlabelled texts"),
        (("vanilla", shots, {"teacher": "oracle"}), "unknown student 'oracle'"),
        (
            ("vanilla", shots, {"teacher_encoder": "./nowhere"}),
            "there is no folder './nowhere'; give the folder of a model",
        ),
        (("mixup", shots, {}), "the student tfidf has none"),
    ):
        method, protocol, more = arguments
        with pytest.raises(LindaError, match=message):
            grid(method, protocol, **more)


def test_a_changed_pipeline_is_another_student(
    source: OwnTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_student.py").write_text(
        "from sklearn.feature_extraction.text import CountVectorizer\n"
        "from sklearn.naive_bayes import MultinomialNB\n"
        "from sklearn.pipeline import make_pipeline\n"
        "bayes = make_pipeline(CountVectorizer(), MultinomialNB(alpha=0.5))\n"
    )
    monkeypatch.chdir(tmp_path)
    result = run_cell(
        Cell(source, Protocol(shots=4), parse_recipe("smote"), 0), BenchmarkSettings(student="own_student:bayes")
    )
    assert "MultinomialNB(alpha=0.5)" in result["settings"]["pipeline"]
    assert result["scores"]["test"]["accuracy"] > 50


def test_noise_is_in_training_rows_only(encoder: str, source: OwnTask) -> None:
    given = settings(encoder, "tfidf", folds=0)
    clean, noisy = (
        run_cell(Cell(source, Protocol(shots=20, label_noise=noise), parse_recipe("vanilla"), 0), given)
        for noise in (0.0, 0.4)
    )
    assert clean["scores"]["test"]["log_loss"] < noisy["scores"]["test"]["log_loss"]
    assert noisy["protocol"] == "20-shot noise 0.4"
    assert isinstance(source.load().tests["test"], LabelledRows)


@pytest.mark.data
@pytest.mark.skipif("LINDA_DATA" not in os.environ, reason="set LINDA_DATA to the folder of the real tasks")
def test_real_questions_with_a_rare_class() -> None:
    trec = NamedTask("trec-coarse", Path(os.environ["LINDA_DATA"]) / "tasks")
    rare = Protocol(imbalance=(10, 80), rare="LOC")
    given = BenchmarkSettings(student="tfidf", unlabelled="rest", folds=3)
    found = {
        name: run_cell(Cell(trec, rare, parse_recipe(name), 0), given)
        for name in ("vanilla", "oversample", "pseudo-label")
    }
    plain, filled = (found[name]["scores"]["test"] for name in ("vanilla", "oversample"))
    assert plain["accuracy"] > 45  # the largest class has 28 % of the test rows
    assert filled["recall:LOC"] > plain["recall:LOC"]
    assert plain["macro_f1_tuned"] > plain["macro_f1"]
    assert (found["oversample"]["new_rows"], found["pseudo-label"]["new_rows"]) == (70, 410)
