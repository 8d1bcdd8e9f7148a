"""The paper's experiments, from the command line, on data of a few rows and models of a few weights."""

import gzip
import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from linda.benchmark.estimate import estimated_hours
from linda.benchmark.grid import make_grid
from linda.benchmark.protocol import Protocol
from linda.benchmark.recipes import parse_recipe
from linda.benchmark.reporting.paper import EXPERIMENTS
from linda.benchmark.settings import BenchmarkSettings
from linda.benchmark.tasks import NamedTask
from linda.cli import main
from tiny_encoder import save_tiny_bert

ROOT = Path(__file__).parents[1]
TEXTS = [
    f"{who} {where} is {what} so far"
    for who in ("the man", "a film", "the city", "what")
    for where in ("here", "in the city", "of the man")
    for what in ("good", "bad")
]


def _rows(**more: Any) -> list[dict[str, Any]]:
    return [{"text": text, "label": "good" if "good" in text else "bad", **more} for text in TEXTS]


def _write(folder: Path, rows: list[dict[str, Any]], *splits: str) -> None:
    folder.mkdir(parents=True)
    for split in splits:
        with gzip.open(folder / f"{split}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every task of the paper's experiments, with the files and fields of the real ones."""
    folder = tmp_path_factory.mktemp("tasks")
    trec = [{"text": row["text"], "label_coarse": row["label"], "label_fine": row["label"]} for row in _rows()]
    _write(folder / "trec", trec, "train", "test")
    _write(folder / "imdb", _rows(), "train", "test")
    _write(folder / "sst2", _rows(), "train", "validation")
    for name in ("rte", "qnli"):
        _write(folder / name, _rows(text_pair="the city is far"), "train", "validation")
    _write(folder / "mnli", _rows(text_pair="the city is far"), "train", "validation_matched", "validation_mismatched")
    for name, domains in (("womens_clothing_reviews", ("Tops", "Trend")), ("yelp_cuisine_polarity", ("chinese", "us"))):
        _write(folder / name, [row for domain in domains for row in _rows(domain=domain)], "train", "test")
    return folder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny_bert(tmp_path_factory.mktemp("tiny") / "bert"))


@pytest.fixture(scope="module")
def small(tasks: Path, encoder: str, tiny_model_folder: Path) -> list[str]:
    """Options that make any experiment small."""
    models = ["--data", str(tasks), "--encoder", encoder, "--model", str(tiny_model_folder)]
    return [*models, "--max-length", "24", "--epochs", "1", "--seeds", "1", "--test-size", "6", "--workers", "1"]


def bench(output: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["bench", "--output", str(output), *arguments])


def read_cells(output: Path) -> dict[str, dict[str, Any]]:
    """By method, for a single task, protocol and seed."""
    cells = [json.loads(file.read_text()) for file in (output / "cells").glob("*.json")]
    assert len({cell["method"] for cell in cells}) == len(cells)
    return {cell["method"]: cell for cell in cells}


def test_the_profile_of_the_paper_is_its_procedure(small: list[str], encoder: str, tmp_path: Path) -> None:
    one_task = ["--tasks", "sst2", "--shots", "4", "--masked-model", encoder]
    result = bench(tmp_path / "out", "--paper", "nli", "--profile", "paper", *one_task, *small)
    assert result.exit_code == 0, result.output
    notes = result.stderr.splitlines()
    assert notes[0].startswith("LINDA: the model in ")
    assert "not the paper's, which is BART-large" in notes[0]
    assert notes[1] == f"SSMBA: the masked language model {encoder}"
    cells = read_cells(tmp_path / "out")
    assert set(cells) == set(EXPERIMENTS["nli"].methods)
    for method, cell in cells.items():
        assert (cell["settings"]["budget"], cell["settings"]["learning_rate"]) == ("epochs", 3e-5)
        if method.startswith("linda"):
            assert cell["settings"]["engine"] == "torch"
        if method in ("vanilla", "mixup"):
            assert (cell["new_rows"], cell["updates"]) == (0, 1)
        elif method != "linda":  # one new row for every row, whatever it is, and twice the updates
            assert (cell["policy"]["gates"], cell["new_rows"], cell["updates"]) == (False, 8, 2)
    assert cells["linda"]["policy"]["gates"]
    report = (tmp_path / "out" / "report.md").read_text()
    assert "- budget: epochs" in report


def test_the_embedded_model_is_never_called_the_papers(tasks: Path, encoder: str, tmp_path: Path) -> None:
    experiment = ["--paper", "low-resource", "--data", str(tasks), "--encoder", encoder, "--dry-run"]
    result = bench(tmp_path / "out", *experiment, "--profile", "paper")
    assert result.exit_code == 0, result.output
    notes = [line for line in result.stderr.splitlines() if "embedded" in line]
    assert [note.split(":")[0] for note in notes] == ["LINDA", "SSMBA"]
    assert all("not the paper's" in note for note in notes)
    assert not (tmp_path / "out").exists()
    assert bench(tmp_path / "out", *experiment).stderr == ""  # a laptop's is not taken for the paper's


def test_budgets_are_recorded_and_not_mixed(small: list[str], tmp_path: Path) -> None:
    experiment = ["--paper", "low-resource", "--tasks", "sst2", "--shots", "4", "--methods", "vanilla,linda-raw"]
    rate = ["--learning-rate", "1e-3"]
    for budget, updates in (("updates", 1), ("epochs", 2)):
        result = bench(tmp_path / budget, *experiment, *small, *rate, "--budget", budget)
        assert result.exit_code == 0, result.output
        cells = read_cells(tmp_path / budget)
        assert [cells[name]["settings"]["budget"] for name in ("vanilla", "linda-raw")] == [budget] * 2
        assert (cells["vanilla"]["updates"], cells["linda-raw"]["updates"]) == (1, updates)
    mixed = bench(tmp_path / "updates", *experiment, *small, *rate, "--budget", "epochs")
    assert (mixed.exit_code, "has cells with budget updates" in mixed.stderr) == (2, True)
    idle = bench(tmp_path / "none", *experiment, "--data", small[1], "--student", "tfidf", "--budget", "epochs")
    assert "--budget has no effect: tfidf is not trained in epochs" in idle.stderr


def test_the_table_of_labels(small: list[str], tmp_path: Path) -> None:
    """Appendix C: single texts and pairs, with each kind of label."""
    names = ["--tasks", "rte,mnli,trec-coarse", "--train-size", "6", "--learning-rate", "1e-3"]
    result = bench(tmp_path / "out", "--paper", "labels", *names, *small)
    assert result.exit_code == 0, result.output
    report = (tmp_path / "out" / "report.md").read_text()
    assert "| method | trec-coarse 6 rows | rte 6 rows | mnli 6 rows, matched | mnli 6 rows, mismatched |" in report
    for method in EXPERIMENTS["labels"].methods:
        assert f"| {method} | " in report


def test_matrices_of_domains(small: list[str], tmp_path: Path) -> None:
    """Appendix D: trained on each domain, tested on all, for each data set of reviews."""
    names = ["--tasks", "womens-clothing,yelp-cuisine", "--methods", "vanilla,linda-raw-predicted"]
    result = bench(tmp_path / "out", "--paper", "ood", *names, "--train-size", "6", "--learning-rate", "1e-3", *small)
    assert result.exit_code == 0, result.output
    report = (tmp_path / "out" / "report.md").read_text()
    for task, first, second in (("womens-clothing", "Tops", "Trend"), ("yelp-cuisine", "chinese", "us")):
        matrices = report.split(f"## {task} 6 rows: trained on the domain of the column")[1].split("\n## ")[0]
        for method in ("vanilla", "linda-raw-predicted"):
            lines = matrices.split(f"| {method} | {first} | {second} |\n")[1].splitlines()[1:3]
            assert [line.split(" | ")[0] for line in lines] == [f"| {first}", f"| {second}"]
            assert all(len(line.split(" | ")) == 3 and "|  |" not in line for line in lines)


def test_estimates_follow_the_work_and_the_cells_that_are_there(tasks: Path, encoder: str, tmp_path: Path) -> None:
    def hours(methods: str, shots: int = 4, **changed: Any) -> float:
        settings = BenchmarkSettings(**{"max_length": 24, "epochs": 4, **changed})
        recipes = [parse_recipe(name) for name in methods.split(",")]
        cells = make_grid([(NamedTask("sst2", tasks), [Protocol(shots=shots)])], recipes, range(2), settings)
        return estimated_hours(cells, settings, tmp_path / "out", workers=1)

    assert hours("vanilla", shots=8) > hours("vanilla") > 0
    assert hours("vanilla,linda-raw") > 2 * hours("vanilla")
    assert hours("eda", budget="epochs") > 1.5 * hours("eda")
    assert hours("vanilla", encoder=encoder) > 5 * hours("vanilla")  # taken for BERT-base
    assert hours("linda-raw-predicted") > 1.3 * hours("linda-raw")  # with a teacher
    settings = ["--tasks", "sst2", "--data", str(tasks), "--shots", "4", "--methods", "vanilla", "--student", "tfidf"]
    assert bench(tmp_path / "out", *settings, "--folds", "0", "--seeds", "1").exit_code == 0
    cell = next((tmp_path / "out" / "cells").glob("*.json"))
    cell.write_text(json.dumps({**json.loads(cell.read_text()), "seconds": {"train": 7200.0}}))
    assert hours("vanilla") == pytest.approx(2)  # the second seed will take as long as the first


def test_all_tables_are_reproduced_in_order_and_resumed(
    tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reproduce = runpy.run_path(str(ROOT / "scripts" / "reproduce.py"))["main"]
    run = subprocess.run
    started: list[str] = []

    def noted(command: list[str], **more: Any) -> Any:
        """The first table in a process of its own. The others in this one, which has imported everything."""
        started.append(command[command.index("--paper") + 1])
        if len(started) == 1:
            return run(command, capture_output=True, **more)
        assert command[:3] == [sys.executable, "-m", "linda"]
        return subprocess.CompletedProcess(command, CliRunner().invoke(main, command[3:]).exit_code)

    monkeypatch.setattr(subprocess, "run", noted)
    few = ["--tasks", "sst2,imdb", "--methods", "vanilla", "--student", "tfidf", "--folds", "0", "--seeds", "1"]
    arguments = ["--data", str(tasks), "--work", str(tmp_path / "work"), "--", *few, "--workers", "1"]
    assert reproduce(arguments) == 0
    assert started == ["low-resource", "full", "nli", "ood", "labels"]
    shown = capsys.readouterr().out
    assert shown.startswith("low-resource:\n4 of 4 cells are missing: about 0.0 hours on 1 CPU core\nfull:\n")
    assert "All 5 tables: about 0 hours" in shown
    assert all((tmp_path / "work" / table / "report.md").is_file() for table in started)
    assert reproduce(arguments) == 0
    assert capsys.readouterr().out.startswith("low-resource:\n0 of 4 cells are missing")


def test_data_that_are_missing_are_named_before_anything_is_computed(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "reproduce.py"), "--data", str(tmp_path / "nowhere")]
    result = subprocess.run(
        [*command, "--work", str(tmp_path / "work")], capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 2
    assert f"there is no folder '{tmp_path / 'nowhere'}'; give a folder of tasks" in result.stderr
    assert "docs/reference/bench.md, Tasks" in result.stderr
    assert not (tmp_path / "work").exists()


def test_make_says_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text())
    stamp = tmp_path / ".venv" / ".installed"
    stamp.parent.mkdir()
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).touch()
    stamp.touch()
    result = subprocess.run(["make", "reproduce"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "make reproduce DATA=tasks WORK=results" in result.stderr
