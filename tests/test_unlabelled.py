"""Labelled rows are mixed with unlabelled texts, and a teacher labels the results."""

import gzip
import json
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from linda.augmentation import Augmenter, augment
from linda.cli import main
from linda.errors import LindaError
from linda.planning.plan import Plan, PlanRow
from splice import Shout, Splice, sentences
from tiny_encoder import save_tiny_bert

ALL = sentences(16)
LISTS = {"text": ALL[:6], "label": ["no", "yes"] * 3}
MORE = ALL[6:]


class Teacher:
    """The share of the words that come from even rows."""

    classes_ = ("no", "yes")

    def predict_proba(self, texts: list[str]) -> np.ndarray:
        share = [np.mean([int(word[3:]) % 2 == 0 for word in text.split()]) for text in texts]
        return np.array([share, [1 - value for value in share]]).T


QUICK: dict[str, Any] = {"method": Splice(), "ratio": "0.3-0.7", "labels": "predicted", "teacher": Teacher()}


def test_partners_are_the_unlabelled_texts() -> None:
    rows = augment(LISTS, unlabelled=MORE, per_row=5, **QUICK)
    assert [row["text"] for row in rows[:6]] == ALL[:6]
    new = rows[6:]
    assert len(new) > 20
    assert {row["method"] for row in new} == {"splice"}
    for row in new:
        assert 0 <= row["parent_a"] < 6 <= row["parent_b"] < 16
        assert {int(word[3:]) for word in row["text"].split()} <= {row["parent_a"], row["parent_b"]}
        assert row["label_probs"] == pytest.approx(Teacher().predict_proba([row["text"]])[0].tolist(), abs=1e-5)
    assert len({row["parent_b"] for row in new}) == 10


@pytest.mark.parametrize("kind", [pd.DataFrame, datasets.Dataset.from_dict])
def test_every_kind_of_data(kind: Any, capsys: pytest.CaptureFixture[str]) -> None:
    expected = augment(LISTS, unlabelled=MORE, **QUICK)
    result = augment(kind(LISTS), unlabelled=MORE, progress=True, **QUICK)
    assert list(result["text"]) == [row["text"] for row in expected]
    assert "6 rows in, 6 made of 6 planned" in capsys.readouterr().err


def test_skipped_rows_stay_skipped() -> None:
    data = {"text": [*ALL[:5], ""], "label": ["no", "yes"] * 3}
    with pytest.warns(UserWarning, match="skipped 1 rows without text"):
        rows = augment(data, unlabelled=MORE, skip_empty=True, per_row=3, **QUICK)
    assert [row["text"] for row in rows[:5]] == ALL[:5]
    assert {row["parent_a"] for row in rows[5:]} == set(range(5))
    assert min(row["parent_b"] for row in rows[5:]) >= 6


def test_one_labelled_row_is_enough() -> None:
    with pytest.warns(UserWarning, match="all rows have the label"):
        rows = augment({"text": ALL[:1], "label": ["no"]}, classes=["no", "yes"], unlabelled=MORE, per_row=3, **QUICK)
    assert len(rows) == 4


def test_a_plan_may_name_unlabelled_partners() -> None:
    (row,) = augment(LISTS, plan=Plan.of([PlanRow(2, 15, 0.5, 1)]), unlabelled=MORE, only_new=True, **QUICK)
    assert row["text"] == "ape2 bee2 cat2 dog15 elk15 fox15"
    with pytest.raises(LindaError, match="refers to row 7"):
        augment(LISTS, plan=Plan.of([PlanRow(7, 2, 0.5, 1)]), unlabelled=MORE, **QUICK)


@pytest.mark.parametrize("name", ["more.txt", "more.txt.gz", "more.csv", "more.jsonl", "more.parquet"])
def test_files_of_every_kind(tmp_path: Path, name: str) -> None:
    path, frame = tmp_path / name, pd.DataFrame({"text": MORE, "id": range(10)})
    if ".txt" in name:
        content = "\n\n".join(MORE).encode() + b"\n"
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    elif name == "more.csv":
        frame.to_csv(path, index=False)
    elif name == "more.jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_parquet(path)
    assert augment(LISTS, unlabelled=path, **QUICK) == augment(LISTS, unlabelled=MORE, **QUICK)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"labels": "interpolated", "teacher": None}, "labels from a teacher"),
        ({"method": Shout()}, "shout does not mix texts"),
        ({"balance": True}, "cannot be combined with pair or balance"),
        ({"pair": "second"}, "cannot be combined with pair or balance"),
        ({"unlabelled": []}, "no unlabelled texts"),
        ({"unlabelled": ["fine", 5]}, "unlabelled: text 1 is 5, not a text"),
        ({"unlabelled": "nowhere.txt"}, "nowhere.txt"),
        ({"unlabelled": "nowhere.doc"}, "unknown file format"),
    ],
)
def test_bad_input_is_told(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(LindaError, match=message):
        augment(LISTS, **{"unlabelled": MORE, **QUICK, **settings})


def test_datasets_map_takes_no_unlabelled_texts() -> None:
    with pytest.raises(LindaError, match="whole table"):
        Augmenter(unlabelled=MORE, **QUICK)(LISTS)


def call(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["augment", "in.csv", "--output", "out.jsonl", *arguments], catch_exceptions=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"text": ["the cat sat", "a dog ran", "the old man saw"], "label": [0, 1, 0]}).to_csv("in.csv")
    Path("more.txt").write_text("the river was old\na red city\nthe small woman sat\n")
    return tmp_path


def test_the_command_mixes_with_unlabelled_texts(folder: Path, tiny_model_folder: Path) -> None:
    gates = [option for gate in ("copies", "duplicates", "runaway", "drift") for option in ("--keep", gate)]
    encoder = str(save_tiny_bert(folder / "bert"))
    settings = ("--model", str(tiny_model_folder), "--labels", "predicted", "--encoder", encoder, *gates)
    result = call("--unlabelled", "more.txt", "--per-row", "4", *settings)
    assert result.exit_code == 0, result.stderr
    rows = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert len(rows) == 3 + 12
    assert {row["parent_b"] for row in rows[3:]} <= {3, 4, 5}
    assert all(sum(row["label_probs"]) == pytest.approx(1, abs=1e-4) for row in rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--unlabelled", "labelled.csv"], "labelled.csv has the label column 'label', so its rows are labelled"),
        (["--unlabelled", "other.csv"], "other.csv: there is no column 'text'; it has 'body'"),
        (["--unlabelled", "empty.txt"], "empty.txt: there are no unlabelled texts"),
        (["--unlabelled", "nowhere.txt"], "cannot read nowhere.txt: no such file or directory"),
        (["--unlabelled", "more.txt", "--partners", "any"], "--partners has no effect: with --unlabelled"),
    ],
)
def test_bad_files_are_told_in_one_line(folder: Path, arguments: list[str], message: str) -> None:
    Path("labelled.csv").write_text("text,label\na cat,0\n")
    Path("other.csv").write_text("body\na cat\n")
    Path("empty.txt").write_text("\n\n")
    result = call("--labels", "predicted", *arguments)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert message in result.stderr
    assert not (folder / "out.jsonl").exists()
