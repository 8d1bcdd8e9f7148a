import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from linda.benchmark.tasks import SAMPLE, NamedTask, OwnTask, known_tasks
from linda.errors import LindaError


def write_split(folder: Path, split: str, rows: list[dict[str, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with gzip.open(folder / f"{split}.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def reviews(count: int, label: str = "label", **more: str) -> list[dict[str, Any]]:
    return [{"text": f"text {n}", label: ["negative", "positive"][n % 2], **more} for n in range(count)]


def test_a_task_from_a_folder(tmp_path: Path) -> None:
    write_split(tmp_path / "trec", "train", reviews(4, "label_coarse"))
    write_split(tmp_path / "trec", "test", reviews(2, "label_coarse"))
    task = NamedTask("trec-coarse", tmp_path).load()
    assert task.classes == ["negative", "positive"]
    assert (len(task.train), len(task.tests["test"])) == (4, 2)
    assert task.train.pairs is None
    assert task.training_domains == [None]


def test_anyones_folder_in_the_same_layout(tmp_path: Path) -> None:
    write_split(tmp_path / "mine", "train", reviews(4))
    write_split(tmp_path / "mine", "validation", reviews(2))
    assert len(NamedTask("mine", tmp_path).load().tests["test"]) == 2
    assert "mine" in known_tasks(tmp_path)


def test_anyones_folder_may_have_pairs_and_domains(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write_split(tmp_path / "mine", split, reviews(4, text_pair="and this", domain="books"))
    task = NamedTask("mine", tmp_path).load()
    assert task.train.pairs == ["and this"] * 4
    assert task.domains == ["books"]
    assert not task.small_classes
    assert NamedTask("mine", tmp_path, small_classes=True).load().small_classes


def test_the_rows_tell_one_task_from_another_of_its_name(tmp_path: Path) -> None:
    found = []
    for text in ("one", "two", "one"):
        folder = tmp_path / str(len(found))
        write_split(folder / "mine", "train", [*reviews(4), {"text": text, "label": "positive"}])
        write_split(folder / "mine", "test", reviews(2))
        found.append(NamedTask("mine", folder).load().fingerprint)
    assert found[0] == found[2] != found[1]


def test_movies_are_two_tasks_as_domains(tmp_path: Path) -> None:
    for name, test, count in (("sst2", "validation", 4), ("imdb", "test", 6)):
        write_split(tmp_path / name, "train", reviews(count))
        write_split(tmp_path / name, test, reviews(2))
    task = NamedTask("movies", tmp_path).load()
    assert task.domains == ["imdb", "sst2"]
    assert task.train.domains == ["sst2"] * 4 + ["imdb"] * 6


def test_a_sample_is_said(tmp_path: Path) -> None:
    for name, test in (("sst2", "validation"), ("imdb", "test")):
        write_split(tmp_path / name, "train_sample4", reviews(4, text_pair="other"))
        write_split(tmp_path / name, test, reviews(2, text_pair="other"))
    task = NamedTask("movies", tmp_path).load()
    assert task.notes == tuple(f"{name}: train is the sample train_sample4" for name in ("sst2", "imdb"))
    assert task.source == SAMPLE
    (tmp_path / "sst2").rename(tmp_path / "mine")
    assert NamedTask("mine", tmp_path).load().train.pairs == ["other"] * 4


def test_pairs_and_two_test_sets(tmp_path: Path) -> None:
    rows = reviews(4, text_pair="other")
    write_split(tmp_path / "mnli", "train", rows)
    write_split(tmp_path / "mnli", "validation_matched", rows[:2])
    write_split(tmp_path / "mnli", "validation_mismatched_sample1k", rows[:3])
    task = NamedTask("mnli", tmp_path).load()
    assert task.train.pairs == ["other"] * 4
    assert {name: len(rows) for name, rows in task.tests.items()} == {"matched": 2, "mismatched": 3}
    assert task.notes == ("mnli: validation_mismatched is the sample validation_mismatched_sample1k",)


def test_own_files_of_different_formats(tmp_path: Path) -> None:
    (tmp_path / "my.csv").write_text("review,stars,shop,alpha\ngood,5,a,1\nbad,1,b,1\n")
    (tmp_path / "other.tsv").write_text("review\tstars\tshop\nfine\t5\ta\n")
    own = OwnTask("my", tmp_path / "my.csv", tmp_path / "other.tsv", text="review", label="stars", domain="shop")
    task = own.load()
    assert task.classes == [1, 5]
    assert task.domains == ["a", "b"]
    assert task.tests["test"].labels == [5]


def test_from_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    asked = []

    def load_dataset(path: str, config: str, split: str, revision: str | None) -> datasets.Dataset:
        asked.append((path, config, split))
        rows = {"text": ["a", "b"], "label": [0, 1]}
        return datasets.Dataset.from_dict(rows).cast_column("label", datasets.ClassLabel(names=["neg", "pos"]))

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    task = NamedTask("imdb").load()
    assert asked == [("stanfordnlp/imdb", "plain_text", "train"), ("stanfordnlp/imdb", "plain_text", "test")]
    assert task.train.labels == ["negative", "positive"]  # the names of the folder, whatever the hub's


def test_without_hub_or_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    def fail(*_: Any, **__: Any) -> None:
        raise ConnectionError

    monkeypatch.setattr(datasets, "load_dataset", fail)
    with pytest.raises(LindaError, match=r"'rte' cannot be downloaded from the hub .*--data DIR"):
        NamedTask("rte").load()
    with pytest.raises(LindaError, match=r"'yelp-cuisine' is not on the hub"):
        NamedTask("yelp-cuisine").load()


def test_one_odd_value_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    write_split(tmp_path / "mine", "train", [{"text": 911, "label": "a"}, {"text": "café", "label": "b"}])
    write_split(tmp_path / "mine", "test", reviews(1))
    with pytest.raises(LindaError, match="row 0: 'text' is 911, not a text"):
        NamedTask("mine", tmp_path).load()
    write_split(tmp_path / "mine", "train", [{"text": "x", "label": "1"}, {"text": "y", "label": 1}])
    with pytest.raises(LindaError, match="row 1: the label 1 is of type int, earlier labels are of type str"):
        NamedTask("mine", tmp_path).load()


@pytest.mark.parametrize("missing", [None, ""])
def test_every_row_has_a_domain(tmp_path: Path, missing: str | None) -> None:
    write_split(tmp_path / "mine", "train", [*reviews(2, domain="a"), {"text": "x", "label": "y", "domain": missing}])
    write_split(tmp_path / "mine", "test", reviews(2, domain="a"))
    with pytest.raises(LindaError, match="row 2 has no 'domain'"):
        NamedTask("mine", tmp_path).load()


def test_bad_tasks_are_named(tmp_path: Path) -> None:
    with pytest.raises(LindaError, match=r"unknown task 'trek'; choose from trec-coarse, trec-fine, sst2"):
        NamedTask("trek", tmp_path).load()
    with pytest.raises(LindaError, match=r"no folder '.*nowhere'"):
        NamedTask("sst2", tmp_path / "nowhere").load()
    with pytest.raises(LindaError, match=r"'sst2' needs .*sst2/train.jsonl.gz, which does not exist"):
        NamedTask("sst2", tmp_path).load()
    write_split(tmp_path / "rte", "train", [{"text": "a", "text_pair": "b"}])
    with pytest.raises(LindaError, match=r"rte/train.jsonl.gz: there is no column 'label'"):
        NamedTask("rte", tmp_path).load()
    write_split(tmp_path / "imdb", "train", reviews(4))
    write_split(tmp_path / "imdb", "test", [*reviews(1), {"text": "so so", "label": "neutral"}])
    with pytest.raises(
        LindaError, match=r"imdb: row 1 of the test set has the label 'neutral', which the training rows do not have"
    ):
        NamedTask("imdb", tmp_path).load()
    write_split(tmp_path / "one", "train", reviews(1))
    write_split(tmp_path / "one", "test", reviews(1))
    with pytest.raises(LindaError, match=r"all training rows have the label 'negative'"):
        NamedTask("one", tmp_path).load()


@pytest.mark.data
@pytest.mark.skipif("LINDA_DATA" not in os.environ, reason="set LINDA_DATA to the folder of the real tasks")
@pytest.mark.parametrize(
    ("name", "classes", "train", "tests"),
    [
        ("trec-fine", 50, 5452, {"test": 500}),
        ("rte", 2, 2490, {"test": 277}),
        ("yelp-cuisine", 2, 11621, {"test": 2903}),
        ("mnli", 3, 25000, {"matched": 9815, "mismatched": 1000}),
    ],
)
def test_the_real_tasks(name: str, classes: int, train: int, tests: dict[str, int]) -> None:
    task = NamedTask(name, Path(os.environ["LINDA_DATA"]) / "tasks").load()
    assert len(task.classes) == classes
    assert len(task.train) == train
    assert {test: len(rows) for test, rows in task.tests.items()} == tests
