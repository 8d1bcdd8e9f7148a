"""Several labels per row: lists of names and vectors, through every kind of data and file."""

import json
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from click.testing import CliRunner
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MultiLabelBinarizer

from linda.augmentation import Augmenter, augment
from linda.cli import main
from linda.errors import LindaError
from linda.planning.examples import ListTable, read_examples
from splice import Splice, sentences

NAMES = [["art", "war"], ["art"], ["war", "art"], [], ["sea"], ["art"]]
VECTORS = [[1, 0, 1], [1, 0, 0], [1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 0, 0]]  # the same, as art, sea, war
SOFT = [[0.9, 0.1, 0.8], [0.7, 0.0, 0.2], [1.0, 0.3, 0.6], [0.0, 0.2, 0.0], [0.1, 0.9, 0.4], [0.6, 0.0, 0.0]]
TEXTS = sentences(6)
QUICK: dict[str, Any] = {"method": Splice(), "ratio": "0.3-0.7", "multi_label": True}


def labels_of(values: list[Any], **options: Any) -> Any:
    table = ListTable({"text": TEXTS[: len(values)], "label": values})
    return read_examples(table, multi_label=True, **options).labels


@pytest.mark.parametrize("values", [NAMES, VECTORS, [json.dumps(value) for value in NAMES], [*map(np.array, VECTORS)]])
def test_names_and_vectors_are_read_alike(values: list[Any]) -> None:
    labels = labels_of(values)
    assert labels.distributions(np.arange(6)).tolist() == VECTORS
    assert labels.codes.tolist() == [0, 1, 0, 2, 3, 1]  # rows 0 and 2, and 1 and 5, have the same set
    assert list(labels.counts().values()) == [4, 1, 2]
    assert list(labels.counts()) == (["art", "sea", "war"] if "art" in str(values[0]) else [0, 1, 2])


def test_vectors_need_not_sum_to_one() -> None:
    labels = labels_of(SOFT)
    assert labels.distributions(np.arange(6)).tolist() == SOFT
    assert labels.codes.tolist() == [0, 1, 0, 2, 3, 1]


def test_all_classes_can_be_declared() -> None:
    assert labels_of(NAMES, classes=["war", "art", "sea", "sky"]).counts() == {"war": 2, "art": 4, "sea": 1, "sky": 0}
    assert labels_of(VECTORS, classes=["art", "sea", "war"]).counts() == {"art": 4, "sea": 1, "war": 2}


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([[1, 0, 1], [1, 0]], {}, "row 1: 2 values, expected 3, one per class"),
        ([[1, 0]], {"classes": ["art", "sea", "war"]}, "row 0: 2 values, expected 3"),
        ([[1, 0], []], {}, "row 1: 0 values, expected 2"),
        ([[0.5, 1.5]], {}, "row 0: 0.5, 1.5 is not a vector of labels; values must be from 0 to 1"),
        ([[0.5, float("nan")]], {}, "values must be from 0 to 1"),
        ([["art"], [1, 0]], {}, "row 1: the label is 1, 0; give class names in all rows, or numbers in all"),
        ([["art", 1]], {}, "row 0: the label is 'art', 1; give class names"),
        ([["art"], ["sky"]], {"classes": ["art"]}, "row 1: the label 'sky' is not one of 'art'"),
        (["art"], {}, "row 0: the label is 'art'; with several labels per row, give a list"),
        ([["art"], None], {}, "row 1: the label is missing"),
    ],
)
def test_bad_labels_are_told(values: list[Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(LindaError, match=message):
        labels_of(values, **options)


@pytest.mark.parametrize("values", [NAMES, SOFT])
def test_several_labels_must_be_declared(values: list[Any]) -> None:
    with pytest.raises(LindaError, match=r"several labels \(multi_label, --multi-label\)"):
        augment({"text": TEXTS, "label": values}, method=Splice())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"balance": True}, "balance needs one label per row"),
        ({"labels": "sharpened"}, "sharpened labels are distributions"),
        ({"labels": "predicted"}, "teacher object with predict_proba"),
    ],
)
def test_what_several_labels_cannot_be_combined_with(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(LindaError, match=message):
        Augmenter(multi_label=True, **settings)


@pytest.mark.parametrize("values", [NAMES, VECTORS, SOFT])
@pytest.mark.parametrize("kind", [dict, pd.DataFrame, datasets.Dataset.from_dict])
def test_new_rows_have_both_parents_labels_by_share(values: list[Any], kind: Any) -> None:
    result = augment(kind({"text": TEXTS, "label": values}), partners="any", per_row=3, **QUICK)
    rows = result.to_dict("records") if isinstance(result, pd.DataFrame) else list(result)
    originals = SOFT if values is SOFT else VECTORS
    assert [row["label"] for row in rows[:6]] == values
    assert [row["label_probs"] for row in rows[:6]] == originals
    assert len(rows) > 15
    for row in rows[6:]:
        first, second = originals[int(row["parent_a"])], originals[int(row["parent_b"])]
        mixed = [row["alpha"] * a + (1 - row["alpha"]) * b for a, b in zip(first, second, strict=True)]
        assert row["label_probs"] == pytest.approx(mixed, abs=1e-5)
        is_present = [share >= 0.5 for share in row["label_probs"]]
        if values is NAMES:
            assert row["label"] == [name for name, yes in zip(["art", "sea", "war"], is_present, strict=True) if yes]
        else:
            assert row["label"] == (row["label_probs"] if values is SOFT else [int(yes) for yes in is_present])


def test_the_same_label_is_the_same_set(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(UserWarning, match="2 rows have a label that no other row has"):
        rows = augment({"text": TEXTS, "label": NAMES}, progress=True, **QUICK)
    assert {(row["parent_a"], row["parent_b"]) for row in rows[6:]} == {(0, 2), (2, 0), (1, 5), (5, 1)}
    assert all(set(row["label_probs"]) == {0.0, 1.0} for row in rows[6:])
    assert "label art                4 originals         4 new" in capsys.readouterr().err


def test_hard_labels_keep_every_class_of_at_least_one_half() -> None:
    rows = augment({"text": TEXTS, "label": NAMES}, partners="any", labels="hard", only_new=True, **QUICK)
    for row in rows:
        assert row["label_probs"] == [float(name in row["label"]) for name in ("art", "sea", "war")]


def test_a_teacher_for_several_labels_predicts_each_class_by_itself() -> None:
    binarizer = MultiLabelBinarizer()
    teacher = make_pipeline(CountVectorizer(), OneVsRestClassifier(LogisticRegression()))
    teacher.fit(TEXTS, binarizer.fit_transform(NAMES))

    class Teacher:
        classes_ = binarizer.classes_
        predict_proba = staticmethod(teacher.predict_proba)

    rows = augment(
        {"text": TEXTS, "label": NAMES}, partners="any", labels="predicted", teacher=Teacher(), only_new=True, **QUICK
    )
    expected = teacher.predict_proba([row["text"] for row in rows])
    assert np.allclose([row["label_probs"] for row in rows], expected, atol=1e-5)


@pytest.mark.parametrize("name", ["in.csv", "in.jsonl", "in.parquet"])
@pytest.mark.parametrize("values", [NAMES, VECTORS, SOFT])
def test_files_of_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, values: list[Any]) -> None:
    monkeypatch.chdir(tmp_path)
    texts = [f"The old film {row} was a great success in the city." for row in range(6)]
    frame = pd.DataFrame({"text": texts, "label": values})
    if name == "in.csv":
        frame.assign(label=[json.dumps(value) for value in values]).to_csv(name, index=False)
    elif name == "in.jsonl":
        frame.to_json(name, orient="records", lines=True)
    else:
        frame.to_parquet(name)
    command = ["augment", name, "--output", "out.parquet", "--method", "eda", "--multi-label"]
    result = CliRunner().invoke(main, command, catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    rows = pq.read_table("out.parquet").to_pylist()
    assert len(rows) == 12
    written = [json.loads(row["label"]) if name == "in.csv" else row["label"] for row in rows]
    assert written[:6] == values
    parents = [values[row["parent_a"]] for row in rows[6:]]
    assert [sorted(label) for label in written[6:]] == [sorted(label) for label in parents]


def test_the_loss_of_each_class_takes_the_new_labels() -> None:
    """As in docs/reference/augment.md: a `Trainer` with problem_type multi_label_classification uses this loss."""
    rows = augment({"text": TEXTS, "label": SOFT}, partners="any", **QUICK)
    target = torch.tensor([row["label_probs"] for row in rows])
    logits = torch.zeros_like(target, requires_grad=True)
    torch.nn.functional.binary_cross_entropy_with_logits(logits, target).backward()
    assert torch.allclose(logits.grad, (0.5 - target) / target.numel())
