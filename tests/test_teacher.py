"""Any classifier can be the teacher: one fine-tuned here, one saved, one of transformers in a folder."""

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from linda.augmentation import augment
from linda.augmentation.teacher import fit_teacher, load_teacher
from linda.errors import LindaError
from linda.planning.examples import ListTable, read_examples
from splice import RandomSplice
from tiny_encoder import WORDS, save_tiny_bert

TEXTS = [" ".join(Random(row).sample(WORDS, 6)) for row in range(16)]
LABELS = ["r"] * 8 + ["g"] * 8


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_bert(tmp_path_factory.mktemp("bert") / "bert")


def save_classifier(bert: Path, folder: Path, names: list[str] | None, number: int = 2) -> Path:
    from transformers import AutoTokenizer, BertForSequenceClassification

    labels: dict[str, Any] = {"num_labels": number}
    if names is not None:
        labels = {"id2label": dict(enumerate(names)), "label2id": {name: n for n, name in enumerate(names)}}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = BertForSequenceClassification.from_pretrained(bert, **labels)
        torch.nn.init.normal_(model.classifier.weight)
        model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(bert).save_pretrained(folder)
    return folder


def test_a_transformers_folder_labels_new_texts(bert: Path, tmp_path: Path) -> None:
    folder = save_classifier(bert, tmp_path / "teacher", ["r", "g"])
    data = {"text": TEXTS, "label": LABELS}
    rows = augment(data, method=RandomSplice(), labels="predicted", teacher=folder, only_new=True)
    teacher = load_teacher(folder, ("g", "r"))
    assert teacher.classes_ == ["r", "g"]
    said = teacher.predict_proba([row["text"] for row in rows])
    assert len(rows) > 4
    for row, (red, green) in zip(
        rows, said, strict=True
    ):  # the classes of the data are sorted, those of the teacher are not
        assert row["label_probs"] == pytest.approx([green, red], abs=2e-6)
        assert row["label"] == ("g" if green > red else "r")


def test_a_teacher_without_names_is_taken_by_number(bert: Path, tmp_path: Path) -> None:
    assert load_teacher(save_classifier(bert, tmp_path / "a", None), (3, 7)).classes_ == [3, 7]
    assert load_teacher(save_classifier(bert, tmp_path / "b", ["7", "3"]), (3, 7)).classes_ == [7, 3]


def test_a_teacher_of_other_labels_is_refused(bert: Path, tmp_path: Path) -> None:
    with pytest.raises(LindaError, match="'x', 'y', those of the data 'g', 'r'"):
        load_teacher(save_classifier(bert, tmp_path / "a", ["x", "y"]), ("g", "r"))
    with pytest.raises(LindaError, match="must be the same"):
        load_teacher(save_classifier(bert, tmp_path / "b", None, 3), ("g", "r"))
    with pytest.raises(LindaError, match="cannot be loaded"):
        load_teacher(tmp_path, ("g", "r"))


def test_the_answer_does_not_depend_on_the_batch(bert: Path, tmp_path: Path) -> None:
    teacher = load_teacher(save_classifier(bert, tmp_path / "a", ["r", "g"]), ("g", "r"))
    texts, pairs = [text * (1 + n % 3) for n, text in enumerate(TEXTS * 3)], TEXTS * 3
    together = teacher.predict_proba(texts, pairs)
    alone = np.concatenate([teacher.predict_proba([text], [pair]) for text, pair in zip(texts, pairs, strict=True)])
    assert together == pytest.approx(alone, abs=1e-5)
    assert np.allclose(together.sum(axis=1), 1)


def test_a_teacher_is_fine_tuned_on_the_rows_that_are_not_skipped(bert: Path, tmp_path: Path) -> None:
    lists = {"text": ["", *TEXTS], "second": ["x", *TEXTS], "label": [None, *LABELS]}
    examples = read_examples(ListTable(lists), pair="second", skip_empty=True)
    teacher = fit_teacher(examples, bert)
    assert teacher.classes_ == ["g", "r"]
    teacher.save(tmp_path / "saved")
    saved = load_teacher(tmp_path / "saved", ("g", "r"))
    assert saved.predict_proba(TEXTS, TEXTS) == pytest.approx(teacher.predict_proba(TEXTS, TEXTS), abs=1e-5)


def test_soft_labels_can_be_taught(bert: Path) -> None:
    soft = [[0.9, 0.1] if label == "r" else [0.2, 0.8] for label in LABELS]
    teacher = fit_teacher(read_examples(ListTable({"text": TEXTS, "label": soft})), bert)
    assert teacher.classes_ == [0, 1]
