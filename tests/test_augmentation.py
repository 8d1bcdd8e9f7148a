"""One call for lists, pandas and datasets: the result has the type of the input."""

import pickle
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest

import linda
from linda.augmentation import Augmenter, augment
from linda.augmentation.gates import Gates
from linda.errors import LindaError
from linda.planning import neighbours
from linda.planning.plan import Plan, PlanRow
from splice import Shout, Splice, sentences, splice
from tiny_encoder import save_tiny_bert

TEXTS = sentences(8)
RECORD = ["label_probs", "parent_a", "parent_b", "alpha", "method", "plan_seed"]
NO_GATES = Gates(**dict.fromkeys(Gates.names(), False))
QUICK: dict[str, Any] = {"method": Splice(), "ratio": "0.3-0.7"}


def lists(labels: list[Any] | None = None) -> dict[str, list[Any]]:
    return {"text": TEXTS, "label": labels or ["no", "yes"] * 4, "id": list(range(8))}


def test_the_public_names() -> None:
    assert linda.augment is augment
    assert linda.Augmenter is Augmenter


def test_parallel_lists_become_rows() -> None:
    rows = augment(lists(), **QUICK)
    assert len(rows) == 16
    assert rows[0] == {
        "text": TEXTS[0],
        "label": "no",
        "id": 0,
        "label_probs": [1.0, 0.0],
        "parent_a": None,
        "parent_b": None,
        "alpha": None,
        "method": "original",
        "plan_seed": None,
    }
    new = rows[8]
    assert (new["parent_a"], new["method"], new["id"]) == (0, "splice", None)
    share = dict(zip(["no", "yes"], new["label_probs"], strict=True))
    assert share["no"] == (1.0 if new["parent_b"] % 2 == 0 else new["alpha"])
    assert new["label"] == max(share, key=lambda name: share[name])


def test_the_same_rows_come_of_every_kind_of_data() -> None:
    rows = augment(lists(), only_new=True, **QUICK)
    frame = augment(pd.DataFrame(lists()), only_new=True, **QUICK)
    dataset = augment(datasets.Dataset.from_dict(lists()), only_new=True, **QUICK)
    assert frame.to_dict("records") == rows
    assert dataset.to_list() == rows


def test_progress_ends_in_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    augment(lists(), progress=True, **QUICK)
    assert "8 rows in, 8 made of 8 planned" in capsys.readouterr().err
    augment(lists(), **QUICK)
    assert capsys.readouterr().err == ""


def test_a_frame_keeps_its_columns_and_their_types() -> None:
    frame = pd.DataFrame(
        {
            "text": TEXTS,
            "label": pd.Categorical(["no", "yes"] * 4),
            "id": np.arange(8),
            "ok": [True, False] * 4,
            "when": pd.date_range("2024-01-01", periods=8),
        },
        index=[5] * 8,  # the index does not matter: rows are counted by position
    )
    result = augment(frame, **QUICK)
    assert list(result.columns) == ["text", "label", "id", "ok", "when", *RECORD]
    assert len(result) == 16
    assert result["label"].dtype == frame["label"].dtype
    assert result["text"].dtype == frame["text"].dtype
    assert result["id"][:8].tolist() == list(range(8))
    assert result["id"][8:].isna().all()
    assert result["id"].dtype == "Int64"
    assert result["ok"].dtype == "boolean"
    assert result["when"].dtype == frame["when"].dtype
    assert result["parent_a"][8:].tolist() == list(range(8))
    assert result["alpha"].dtype == "float64"
    assert result.attrs["label_names"] == ["no", "yes"]
    assert list(frame.columns) == ["text", "label", "id", "ok", "when"]  # the input is not changed


@pytest.mark.parametrize("labels", [[0, 1] * 4, [True, False] * 4, ["a", "b"] * 4])
def test_labels_come_back_in_their_own_type(labels: list[Any]) -> None:
    frame = pd.DataFrame(lists(labels))
    assert augment(frame, **QUICK)["label"].dtype == frame["label"].dtype
    assert {type(row["label"]) for row in augment(lists(labels), **QUICK)} == {type(labels[0])}


def test_missing_values_of_pandas_are_missing() -> None:
    frame = pd.DataFrame(lists()).astype({"text": "string"})
    frame.loc[3, "text"] = pd.NA
    with pytest.raises(LindaError, match="row 3: 'text' is empty"):
        augment(frame, **QUICK)
    with pytest.warns(UserWarning, match="1 rows without text"):
        result = augment(frame, skip_empty=True, **QUICK)
    assert len(result) == 14
    assert 3 not in result["parent_a"].dropna().tolist()
    frame = pd.DataFrame(lists([0, 1, None, 1] * 2))
    with pytest.raises(LindaError, match="row 2: the label is missing"):
        augment(frame, **QUICK)


def test_twice_the_same_column_is_told() -> None:
    frame = pd.DataFrame(lists())
    with pytest.raises(LindaError, match="'text' occurs twice"):
        augment(pd.concat([frame, frame[["text"]]], axis=1), **QUICK)


def test_a_dataset_keeps_its_features() -> None:
    data = datasets.Dataset.from_dict(lists([0, 1] * 4)).cast_column(
        "label", datasets.ClassLabel(names=["no", "yes", "perhaps"])
    )
    result = augment(data, **QUICK)
    assert result.features["label"] == data.features["label"]
    assert result.features["id"] == data.features["id"]
    assert result.column_names == ["text", "label", "id", *RECORD]
    assert result[0]["label_probs"] == [1.0, 0.0, 0.0]  # over all classes that the data set declares
    assert len(result) == 16


def test_a_shuffled_dataset_is_read_in_its_own_order() -> None:
    data = datasets.Dataset.from_dict(lists()).shuffle(seed=1)
    result = augment(data, **QUICK)
    assert result["text"][:8] == data["text"][:]
    first = result[8]
    assert data[first["parent_a"]]["text"].split()[0] == first["text"].split()[0]


def test_only_the_training_part_of_a_dict_is_augmented() -> None:
    part = datasets.Dataset.from_dict(lists())
    result = augment(datasets.DatasetDict(train=part, test=part), **QUICK)
    assert isinstance(result, datasets.DatasetDict)
    assert (len(result["train"]), len(result["test"])) == (16, 8)
    with pytest.raises(LindaError, match='no split "train", only test'):
        augment(datasets.DatasetDict(test=part), **QUICK)


def test_soft_labels_in_every_kind_of_data() -> None:
    soft = [[0.9, 0.1], [0.2, 0.8]] * 4
    rows = augment(lists(soft), **QUICK)
    assert rows[1]["label"] == 1
    assert rows[1]["label_probs"] == [0.2, 0.8]
    frame = augment(pd.DataFrame(lists(soft)), **QUICK)
    assert frame["label"].tolist() == [row["label"] for row in rows]
    dataset = augment(datasets.Dataset.from_dict(lists(soft)), **QUICK)
    assert dataset["label"][:] == [row["label"] for row in rows]
    assert dataset["label_probs"][:] == [row["label_probs"] for row in rows]


def test_a_pair_task() -> None:
    data = {**lists(), "second": [f"so {text}" for text in TEXTS]}
    rows = augment(data, pair="second", only_new=True, **QUICK)
    assert len(rows) == 8
    for row in rows:
        parents = (data["second"][row["parent_a"]], data["second"][row["parent_b"]])
        assert row["second"] == splice(*parents, row["alpha"])


def test_the_plan_can_be_given() -> None:
    (row,) = augment(lists(), plan=Plan.of([PlanRow(2, 3, 0.5, 9)]), only_new=True, **QUICK)
    assert (row["parent_a"], row["parent_b"], row["alpha"], row["plan_seed"]) == (2, 3, 0.5, 9)
    with pytest.raises(LindaError, match="rows 0 to 7"):
        augment(lists(), plan=Plan.of([PlanRow(2, 8, 0.5, 9)]), **QUICK)


@pytest.mark.parametrize("batch_size", [1, 3, 128])
def test_the_size_of_a_batch_changes_nothing(batch_size: int) -> None:
    assert augment(lists(), per_row=5, batch_size=batch_size, **QUICK) == augment(lists(), per_row=5, **QUICK)


def test_new_rows_have_a_weight_where_one_was_asked_for() -> None:
    rows = augment(lists(), weight=0.25, **QUICK)
    assert [row["weight"] for row in rows] == [1.0] * 8 + [0.25] * 8
    frame = augment(pd.DataFrame(lists()), weight=0.25, **QUICK)
    dataset = augment(datasets.Dataset.from_dict(lists()), weight=0.25, **QUICK)
    assert frame["weight"].tolist() == dataset["weight"][:] == [row["weight"] for row in rows]
    assert list(frame.columns) == dataset.column_names == ["text", "label", "id", *RECORD, "weight"]
    own = augment({**lists(), "weight": list(range(8))}, **QUICK)  # an ordinary column, unless one is added
    assert [row["weight"] for row in own] == [*range(8), *[None] * 8]
    with pytest.raises(LindaError, match="already has a column 'weight'"):
        augment({**lists(), "weight": list(range(8))}, weight=0.5, **QUICK)


def test_nearest_partners_are_found_by_the_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "NEIGHBOURS", 1)
    monkeypatch.setattr(neighbours, "_BLOCK", 3)
    texts = ["good good good", "bad bad bad", "", "good good good far", "bad bad bad far"]
    data = {"text": texts, "label": [0, 1, 0, 0, 1]}
    nearest = {"partners": "nearest", "encoder": save_tiny_bert(tmp_path / "bert"), "skip_empty": True}
    with pytest.warns(UserWarning, match="1 rows without text"):
        new = augment(data, only_new=True, gates=NO_GATES, **nearest, **QUICK)
    assert [(row["parent_a"], row["parent_b"]) for row in new] == [(0, 3), (1, 4), (3, 0), (4, 1)]


def test_methods_that_mix_nothing_look_for_no_partner() -> None:
    rows = augment(lists(), method=Shout(), partners="nearest", encoder="nowhere", only_new=True)
    assert [row["parent_a"] for row in rows] == list(range(8))


def test_datasets_map_takes_an_augmenter() -> None:
    data = datasets.Dataset.from_dict(lists())
    augmenter = Augmenter(classes=["no", "yes"], **QUICK)
    settings: dict[str, Any] = {"batched": True, "batch_size": 4, "with_indices": True, "load_from_cache_file": False}
    result = data.map(augmenter, **settings, remove_columns=data.column_names)
    assert len(result) == 16
    new = [row for row in result if row["method"] == "splice"]
    assert {row["parent_a"] for row in new} == set(range(8))
    assert all(row["parent_a"] // 4 == row["parent_b"] // 4 for row in new)  # partners are from the same batch
    assert len({row["alpha"] for row in new}) == 8


def test_a_batch_of_one_row_stays_alone() -> None:
    out = Augmenter(classes=["no", "yes"], **QUICK)({"text": TEXTS[:1], "label": ["no"]})
    assert out["method"] == ["original"]
    with pytest.raises(LindaError, match="total"):
        Augmenter(total=5, **QUICK)({"text": TEXTS[:1], "label": ["no"]})


def test_a_batch_of_one_row_is_enough_where_nothing_is_mixed() -> None:
    out = Augmenter(method="eda")({"text": ["The quick brown fox jumps over the lazy dog today."], "label": ["no"]})
    assert out["method"] == ["original", "eda"]


def test_an_augmenter_travels_without_its_model(tiny_model_folder: Path) -> None:
    augmenter = Augmenter(model=str(tiny_model_folder))
    before = pickle.dumps(augmenter)
    with augmenter.writing():
        pass
    assert pickle.dumps(augmenter) == before


def test_linda_is_the_default_method(tiny_model_folder: Path) -> None:
    data = {"text": ["the cat sat", "a dog ran", "the old man saw"], "label": [0, 0, 0]}
    open_gates = Gates(copies=False, duplicates=False, runaway=False, drift=False)
    rows = augment(data, model=tiny_model_folder, gates=open_gates, only_new=True)
    assert [row["method"] for row in rows] == ["linda"] * 3
    again = augment(data, model=tiny_model_folder, gates=open_gates, only_new=True, batch_size=1)
    assert rows == again


@pytest.mark.parametrize(
    ("data", "settings", "message"),
    [
        ("text", {}, "data is a str"),
        ([1, 2], {}, "parallel lists"),
        (lists(), {"labels": "guessed"}, "'guessed'"),
        (lists(), {"labels": "sharpened", "temperature": 0}, "above 0"),
        (lists(), {"batch_size": 0}, "batch_size is 0"),
        (lists(), {"method": "magic"}, "'magic'"),
        (lists(), {"method": Splice}, "Splice.*AugmentationMethod"),
        (lists(), {"method": 3}, "method is 3; give a name or a linda.methods.AugmentationMethod"),
        (lists(), {"workers": 2, "method": Splice()}, "by name"),
        (lists(), {"labels": "predicted", "teacher": "/no/such/folder"}, "no folder"),
        ({"text": ["a cat"], "label": [0]}, {}, "one row"),
        ({"text": [], "label": []}, {}, "no rows"),
    ],
)
def test_what_cannot_work_is_told(data: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(LindaError, match=message):
        augment(data, **{**QUICK, **settings})
