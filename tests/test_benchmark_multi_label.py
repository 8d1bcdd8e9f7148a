"""Several labels per row through `linda bench`: files, students, metrics and reports."""

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from sklearn.linear_model import LogisticRegression

from linda.benchmark.recipes import parse_recipe
from linda.benchmark.tasks import OwnTask
from linda.classifier import TextClassifier
from linda.classifier.weighted_estimator import OneVsRest
from linda.cli import main
from linda.errors import LindaError
from linda.evaluation.metrics import MULTI_LABEL_METRICS, score_multi_label
from tiny_encoder import save_tiny_bert

ROWS = [
    (f"{start} {'painters of the gallery ' * art}{'sailed to the island ' * sea}{end}", ["art"] * art + ["sea"] * sea)
    for start in ("we saw that", "they told us that", "nobody knew that", "last year")
    for end in ("again", "once", "at night")
    for art in (0, 1)
    for sea in (0, 1)
]
VECTORS = [[float("art" in names), float("sea" in names)] for _, names in ROWS]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny_bert(tmp_path_factory.mktemp("tiny") / "bert"))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name in ("train.csv", "test.csv"):
        with (tmp_path / name).open("w", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *((text, json.dumps(names)) for text, names in ROWS)])
    return tmp_path


def bench(folder: Path, *arguments: str) -> Result:
    data = ["--train", str(folder / "train.csv"), "--test", str(folder / "test.csv"), "--multi-label"]
    output = ["--output", str(folder / "out"), "--workers", "1", "--seeds", "2"]
    return CliRunner().invoke(main, ["bench", *data, *output, *arguments])


def cells(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in sorted((folder / "out" / "cells").glob("*.json"))]


@pytest.mark.parametrize("student", ["tfidf", "probe"])
def test_methods_are_compared_on_rows_with_several_labels(files: Path, encoder: str, student: str) -> None:
    methods = "vanilla,eda,splice+partners=any,eda&splice+per_row=2"
    encoders = ["--encoder", encoder] if student == "probe" else []
    result = bench(files, "--student", student, "--methods", methods, "--train-size", "24", *encoders)
    assert result.exit_code == 0, result.output
    found = cells(files)
    assert len(found) == 8
    assert all(set(cell["scores"]["test"]) == set(MULTI_LABEL_METRICS) for cell in found)
    assert {cell["rows"] for cell in found} == {24}
    assert all(cell["new_rows"] > 12 for cell in found if cell["method"] != "vanilla")
    if student == "tfidf":
        assert all(cell["scores"]["test"]["auc"] > 95 for cell in found)
    report = (files / "out" / "report.md").read_text()
    assert "## average_precision in percent" in report
    assert "rows have several labels" in report
    again = CliRunner().invoke(main, ["bench", "--output", str(files / "out"), "--metric", "brier"])
    assert again.exit_code == 0, again.output
    assert "## brier in percent, lower is better" in (files / "out" / "report.md").read_text()


def test_linda_mixes_rows_with_several_labels(files: Path) -> None:
    result = bench(
        files, "--student", "tfidf", "--methods", "linda,linda-interpolated", "--train-size", "12", "--seeds", "1"
    )
    assert result.exit_code == 0, result.output
    assert all(cell["new_rows"] > 0 for cell in cells(files))


def test_fine_tuning_scores_each_class_by_itself(files: Path, encoder: str) -> None:
    settings = ["--encoder", encoder, "--epochs", "12", "--learning-rate", "1e-2", "--seeds", "1"]
    result = bench(files, "--methods", "vanilla,mixup", *settings)
    assert result.exit_code == 0, result.output
    assert {cell["method"]: cell["scores"]["test"]["auc"] > 80 for cell in cells(files)}["vanilla"]


def test_a_fine_tuned_classifier_of_several_labels_is_saved(encoder: str, tmp_path: Path) -> None:
    texts = [text for text, _ in ROWS]
    trained = TextClassifier(encoder, epochs=12, batch_size=8, learning_rate=1e-2, multi_label=True)
    trained.fit(texts, np.array(VECTORS), classes=["art", "sea"])
    loaded = TextClassifier.load(trained.save(tmp_path / "saved") or tmp_path / "saved")
    probabilities = loaded.predict_proba(texts)
    assert np.array_equal(probabilities, trained.predict_proba(texts))
    assert not np.allclose(probabilities.sum(axis=1), 1)
    named = [[name for name, share in zip(["art", "sea"], row, strict=True) if share >= 0.5] for row in probabilities]
    assert loaded.predict(texts) == named
    with pytest.raises(LindaError, match="label 0 is not a vector of labels"):
        trained.fit(["a", "b"], [[2.0, 0.0], [0.0, 1.0]], classes=["art", "sea"])


@pytest.mark.parametrize("form", ["names", "vectors"])
def test_files_are_read_in_every_form(tmp_path: Path, form: str) -> None:
    for name in ("train.jsonl", "test.jsonl"):
        lines = [
            {"text": text, "label": names if form == "names" else vector}
            for (text, names), vector in zip(ROWS, VECTORS, strict=True)
        ]
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    task = OwnTask("my", tmp_path / "train.jsonl", tmp_path / "test.jsonl", multi_label=True).load()
    assert task.classes == (["art", "sea"] if form == "names" else [0, 1])
    assert task.train.targets(task.classes).tolist() == VECTORS
    assert len(set(task.train.kinds)) == 4


def test_one_against_the_rest_is_a_classifier_for_each_class() -> None:
    random = np.random.default_rng(0)
    vectors, targets = random.normal(size=(30, 3)), random.random((30, 2))
    targets[:, 1] = 0  # no row has the second class
    weights = random.random(30)
    found = OneVsRest(LogisticRegression()).fit(vectors, targets, weights).predict_proba(vectors)
    twice, classes = np.concatenate([vectors, vectors]), np.repeat([0, 1], 30)
    both = np.concatenate([(1 - targets[:, 0]) * weights, targets[:, 0] * weights])
    plain = LogisticRegression().fit(twice, classes, sample_weight=both)
    assert found[:, 0] == pytest.approx(plain.predict_proba(vectors)[:, 1], abs=1e-4)
    assert found[:, 1].tolist() == [0.0] * 30


def test_metrics_are_means_over_classes() -> None:
    truth = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.7, 0.0]])
    found = np.array([[0.9, 0.6, 0.1], [0.4, 0.8, 0.2], [0.3, 0.7, 0.1]])
    scores = score_multi_label(found, truth)
    # The first class: one of its two rows is found. The second: both, and one too many. No row has the third.
    assert scores["macro_f1"] == pytest.approx(100 * (2 / 3 + 4 / 5) / 2, abs=1e-4)
    assert (scores["auc"], scores["average_precision"]) == (100.0, 100.0)
    losses = [
        -value * math.log(share) - (1 - value) * math.log(1 - share)
        for value, share in zip(truth.ravel(), found.ravel(), strict=True)
    ]
    assert scores["log_loss"] == pytest.approx(sum(losses) / 9, abs=1e-4)
    squares = [(value - share) ** 2 for value, share in zip(truth.ravel(), found.ravel(), strict=True)]
    assert scores["brier"] == pytest.approx(100 * sum(squares) / 9, abs=1e-4)
    assert set(score_multi_label(found, np.zeros((3, 3)))) == {"log_loss", "brier"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shots", "3"], "--shots needs one label per row; leave it out, or leave --multi-label out"),
        (["--imbalance", "natural"], "--imbalance needs one label per row"),
        (["--label-noise", "0.1"], "--label-noise needs one label per row"),
        (["--folds", "3"], "--folds needs one label per row"),
        (
            ["--metric", "accuracy"],
            "--metric accuracy needs one label per row; with --multi-label choose from macro_f1",
        ),
        (["--metric", "macro_f1_tuned"], "--metric macro_f1_tuned needs one label per row"),
        (["--student", "setfit"], "the student setfit takes one label per row; with --multi-label use finetune"),
        (["--methods", "oversample"], "oversample cannot be used with --multi-label, because oversample needs one"),
        (["--methods", "class-weights"], "because class_weights needs one label per row; use vanilla, mixup or a"),
        (["--methods", "temperature"], "because scaled needs one label per row"),
        (["--methods", "eda+balance"], "because balance needs one label per row"),
        (["--methods", "linda-sharpened"], "because labels=sharpened needs one label per row"),
        (["--learning-rate", "search"], "--learning-rate search needs one label per row; give a number"),
    ],
)
def test_what_needs_one_label_per_row_is_refused(files: Path, arguments: list[str], message: str) -> None:
    given = arguments if "--methods" in arguments else [*arguments, "--methods", "vanilla"]
    result = bench(files, *given)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (files / "out").exists()


def test_bad_labels_name_the_file(files: Path) -> None:
    for test, message in (
        ('text,label\na day,"[""sky""]"\n', "test.csv: row 0: the label 'sky' is not one of 'art', 'sea'"),
        ("text,label\na day,art\n", "test.csv: row 0: the label is 'art'; with several labels per row, give a list"),
    ):
        (files / "test.csv").write_text(test)
        result = bench(files, "--methods", "vanilla")
        assert result.exit_code == 2
        assert message in result.stderr
    (files / "train.csv").write_text('text,label\na day,"[""art""]"\na night,"[""art""]"\n')
    assert "all rows have the same labels" in bench(files, "--methods", "vanilla").stderr
    named = CliRunner().invoke(main, ["bench", "--output", "x", "--tasks", "sst2", "--multi-label"])
    assert "--multi-label describes the labels of your own files; give --train and --test" in named.stderr


def test_predicted_labels_come_from_a_student_of_several_labels(files: Path) -> None:
    result = bench(files, "--student", "tfidf", "--methods", "eda+labels=predicted", "--seeds", "1")
    assert result.exit_code == 0, result.output
    with pytest.raises(LindaError, match="because keep needs one label per row"):
        parse_recipe("eda+keep=0.5").check_multi_label()
