"""Real tasks from file to file. Needs LINDA_DATA, the folder that contains `tasks/`."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pytest

import linda
from linda.augmentation import Augmenter
from linda.augmentation.gates import Gates
from linda.file_runs.file_pipeline import augment_file
from linda.planning.plan import PlanRow

OPEN = Gates(copies=False, duplicates=False, runaway=False, drift=False)  # a random model writes nonsense

pytestmark = pytest.mark.data


@pytest.fixture(scope="module")
def tasks() -> Path:
    folder = Path(os.environ.get("LINDA_DATA", "")) / "tasks"
    if not (folder / "trec").is_dir():
        pytest.skip("set LINDA_DATA to the folder that holds tasks/trec, tasks/rte and tasks/imdb")
    return folder


def rows_of(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_trec_goes_to_parquet_and_back_through_pandas_and_datasets(tasks: Path, tmp_path: Path) -> None:
    source = tasks / "trec" / "train.jsonl.gz"
    originals = rows_of(source)
    settings: dict[str, Any] = {"label": "label_coarse", "method": "eda"}
    summary = augment_file(Augmenter(**settings), source, tmp_path / "trec.parquet")
    assert summary.rows == len(originals) == 5452
    assert summary.tally.made > 5400

    frame = pd.read_parquet(tmp_path / "trec.parquet")
    kept = frame[frame["method"] == "original"][["text", "label_coarse", "label_fine"]]
    assert kept.to_dict("records") == originals
    assert frame[frame["method"] == "eda"]["label_coarse"].isin(set(kept["label_coarse"])).all()

    data = datasets.Dataset.from_parquet(str(tmp_path / "trec.parquet"), cache_dir=str(tmp_path / "cache"))
    data.to_json(tmp_path / "again.jsonl")
    augment_file(
        Augmenter(text="text", label="label_coarse", method="eda", total=5),
        _without_record(tmp_path / "again.jsonl"),
        tmp_path / "twice.csv",
    )
    assert len(pd.read_csv(tmp_path / "twice.csv")) == len(frame) + 5

    in_memory = linda.augment(pd.DataFrame(originals), **settings)
    columns = ["text", "label_coarse", "parent_a", "plan_seed"]
    assert in_memory[columns].fillna(-1).to_dict("records") == frame[columns].fillna(-1).to_dict("records")


def _without_record(path: Path) -> Path:
    frame = pd.read_json(path, lines=True)[["text", "label_coarse", "label_fine"]]
    frame.to_json(path, orient="records", lines=True)
    return path


def test_rte_has_pairs(tasks: Path, tmp_path: Path, tiny_model_folder: Path) -> None:
    source = tasks / "rte" / "train.jsonl.gz"
    augmenter = Augmenter(pair="text_pair", model=tiny_model_folder, total=6, gates=OPEN)
    augment_file(augmenter, source, tmp_path / "rte.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "rte.jsonl").open(encoding="utf-8")]
    assert len(rows) == 2490 + 6
    assert all(row["text"] and row["text_pair"] for row in rows)
    assert json.loads((tmp_path / "rte.jsonl.labels.json").read_text())["label_names"] == [
        "entailment",
        "not_entailment",
    ]


def test_long_reviews_are_not_cut(tasks: Path, tmp_path: Path, tiny_model_folder: Path) -> None:
    source = tasks / "imdb" / "train.jsonl.gz"
    originals = rows_of(source)
    plan = linda.Plan.of([PlanRow(0, 20_000, 0.5, 1), PlanRow(1, 24_999, 0.7, 2)])
    summary = augment_file(Augmenter(model=tiny_model_folder, gates=OPEN), source, tmp_path / "imdb.parquet", plan=plan)
    assert summary.rows == 25_000
    frame = pd.read_parquet(tmp_path / "imdb.parquet")
    assert frame["text"][:25_000].tolist() == [row["text"] for row in originals]
    window = 24  # tokens, of the tiny model
    for text in frame["text"][25_000:]:
        assert len(text.split()) > window
