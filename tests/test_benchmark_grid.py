import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from linda.benchmark import grid as grid_module
from linda.benchmark.cells import Cell, read_cells
from linda.benchmark.grid import CELLS, _jobs, make_grid, run_grid
from linda.benchmark.learning_rate import RATES, search_rate
from linda.benchmark.models import Models
from linda.benchmark.protocol import Protocol
from linda.benchmark.recipes import parse_recipe
from linda.benchmark.settings import BenchmarkSettings
from linda.benchmark.tasks import OwnTask
from linda.benchmark.trial import run_cell
from linda.classifier import TextClassifier
from linda.errors import LindaError
from tiny_encoder import save_tiny_bert


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny_bert(tmp_path_factory.mktemp("tiny") / "bert"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> OwnTask:
    folder = tmp_path_factory.mktemp("data")
    things, places = ["film", "city", "man", "film film"], ["far", "in the city", "of the man", "in a film", "is far"]
    lines = [f"the {a} {b} is {c},{d},{a[:4]}" for a in things for b in places for c, d in (("good", 1), ("bad", 0))]
    for name in ("train", "test"):
        (folder / f"{name}.csv").write_text("\n".join(["text,label,domain", *lines]) + "\n")
    return OwnTask("toy", folder / "train.csv", folder / "test.csv")


@pytest.fixture
def settings(encoder: str) -> BenchmarkSettings:
    return BenchmarkSettings(encoder, learning_rate=1e-2, batch_size=4, epochs=3, max_length=32)


def grid(source: OwnTask, settings: BenchmarkSettings, methods: str = "vanilla,eda", seeds: int = 2) -> list[Cell]:
    parsed = [parse_recipe(name) for name in methods.split(",")]
    return make_grid([(source, [Protocol(shots=4)])], parsed, range(seeds), settings)


def test_a_cell_says_all_that_a_table_needs(source: OwnTask, settings: BenchmarkSettings) -> None:
    result = run_cell(Cell(source, Protocol(shots=4), parse_recipe("eda"), seed=1), settings)
    assert {name: result[name] for name in ("task", "method", "shots", "seed", "rows", "new_rows")} == {
        "task": "toy",
        "method": "eda",
        "shots": 4,
        "seed": 1,
        "rows": 8,
        "new_rows": 8,
    }
    assert 0 <= result["accuracy"] <= 100
    assert set(result["seconds"]) == {"augment", "train", "test"}
    assert result["settings"]["encoder"].split()[0] == "bert"  # a name, not a local path
    assert (result["settings"]["batch_size"], result["settings"]["epochs"]) == (4, 3)
    assert result["source"] == "own files"
    assert result["date"]
    assert "cores" in result["machine"]
    json.dumps(result)


def test_the_budget_is_equal_updates_or_equal_epochs(source: OwnTask, settings: BenchmarkSettings) -> None:
    def updates(method: str, budget: str) -> int:
        cell = Cell(source, Protocol(shots=4), parse_recipe(method), seed=0)
        count: int = run_cell(cell, replace(settings, budget=budget, epochs=1))["updates"]
        return count

    assert updates("vanilla", "updates") == updates("eda", "updates") == updates("eda+per_row=3", "updates") == 2
    assert updates("vanilla", "epochs") == 2
    assert updates("eda+per_row=3", "epochs") == 8


def test_same_cell_same_accuracy(source: OwnTask, settings: BenchmarkSettings) -> None:
    cell = Cell(source, Protocol(shots=4), parse_recipe("mixup"), seed=3)
    assert run_cell(cell, settings)["scores"] == run_cell(cell, settings)["scores"]


def test_every_method_runs_on_linda_too(source: OwnTask, settings: BenchmarkSettings, tiny_model_folder: Path) -> None:
    with_model = replace(settings, epochs=1, models=Models(linda=str(tiny_model_folder)))
    for method in ("linda", "linda-predicted", "linda-measured+weight=0.5+gates=false", "ssmba-soft"):
        result = run_cell(Cell(source, Protocol(shots=4), parse_recipe(method), seed=0), with_model)
        assert result["settings"]["linda_model"].startswith("tiny-linda ")


def test_a_rerun_computes_only_what_is_missing(
    source: OwnTask, settings: BenchmarkSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = grid(source, settings)
    assert run_grid(cells, settings, tmp_path, workers=1) == 4
    assert run_grid(cells, settings, tmp_path, workers=1) == 0
    before = {file.name: file.read_text() for file in (tmp_path / CELLS).iterdir()}
    (tmp_path / CELLS / cells[2].file_name).unlink()
    (tmp_path / CELLS / "half.json.part").write_text("{")  # what a killed run may leave
    computed = []
    compute = grid_module.run_cell

    def counted(cell: Cell, given: BenchmarkSettings) -> dict[str, Any]:
        computed.append(cell)
        return compute(cell, given)

    monkeypatch.setattr(grid_module, "run_cell", counted)
    assert run_grid(cells, settings, tmp_path, workers=1) == 1
    assert computed == [cells[2]]
    again = json.loads((tmp_path / CELLS / cells[2].file_name).read_text())
    assert again["scores"] == json.loads(before[cells[2].file_name])["scores"]


def test_cells_of_other_settings_are_not_mixed(source: OwnTask, settings: BenchmarkSettings, tmp_path: Path) -> None:
    cells = grid(source, settings, seeds=1)
    run_grid(cells, settings, tmp_path, workers=1)
    message = r"toy.* has cells with {}, but others with {} .* use another --output"
    with pytest.raises(LindaError, match=message.format("epochs 3", "2")):
        run_grid(cells, replace(settings, epochs=2), tmp_path, workers=1)
    changed = [replace(cells[1], recipe=replace(cells[1].recipe, policy=parse_recipe("eda+weight=0.5").policy))]
    with pytest.raises(LindaError, match=message.format("weight 1.0", "0.5")):
        run_grid(changed, settings, tmp_path, workers=1)
    # Nor with methods that the folder does not have yet, which would be compared with those that it has.
    with pytest.raises(LindaError, match=message.format("budget updates", "epochs")):
        run_grid(grid(source, settings, "mixup"), replace(settings, budget="epochs"), tmp_path, workers=1)


def test_cells_of_other_rows_are_not_mixed(source: OwnTask, settings: BenchmarkSettings, tmp_path: Path) -> None:
    run_grid(grid(source, settings, "vanilla", seeds=1), settings, tmp_path, workers=1)
    other = replace(source, train=tmp_path / "other.csv")
    other.train.write_text(source.train.read_text() + "one more film,1,film\n")
    with pytest.raises(LindaError, match="has cells with data"):
        run_grid(grid(other, settings, "vanilla", seeds=1), settings, tmp_path, workers=1)


def test_every_cell_has_a_file_of_its_own(source: OwnTask) -> None:
    cell = Cell(source, Protocol(train_size=9), parse_recipe("eda+weight=0.5"), seed=1)
    assert cell.file_name == "toy.9-rows.eda+weight=0.5.seed1.json"
    domains = ["a b", "a/b", "a-b", "a%20b", None]
    assert len({replace(cell, domain=domain).file_name for domain in domains}) == len(domains)


def test_a_cell_that_fails_is_named(source: OwnTask, settings: BenchmarkSettings, tmp_path: Path) -> None:
    broken = replace(settings, models=Models(there="no-such-model", back="no-such-model"))
    with pytest.raises(LindaError, match=r"^toy.4-shot.backtranslation.seed0: "):
        run_grid(grid(source, broken, "backtranslation", seeds=1), broken, tmp_path, workers=1)


def test_folders_without_a_model_are_known_beforehand(
    source: OwnTask, settings: BenchmarkSettings, tmp_path: Path
) -> None:
    for models in (Models(masked=str(tmp_path)), Models(there="a/b", back=str(tmp_path))):
        with pytest.raises(LindaError, match=r"contains no model: it has no config.json"):
            grid(source, replace(settings, models=models))
    with pytest.raises(LindaError, match=r"there is no folder './nowhere'; give the folder of a model"):
        grid(source, replace(settings, encoder="./nowhere"))


def test_the_classifier_is_given_soft_labels_weights_and_pairs(
    source: OwnTask, settings: BenchmarkSettings, tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}
    fit = TextClassifier.fit

    def listening(self, texts, labels, pairs=None, weights=None, **more) -> TextClassifier:
        given.update(texts=texts, labels=labels, pairs=pairs, weights=weights)
        return fit(self, texts, labels, pairs, weights, **more)

    monkeypatch.setattr(TextClassifier, "fit", listening)
    method = parse_recipe("linda-interpolated+weight=0.5+gates=false")
    with_model = replace(settings, epochs=1, models=Models(linda=str(tiny_model_folder)))
    result = run_cell(Cell(replace(source, pair="domain"), Protocol(shots=4), method, seed=0), with_model)
    old, new = result["rows"], result["new_rows"]
    assert new > 0
    assert given["weights"] == [1.0] * old + [0.5] * new
    assert len(given["pairs"]) == old + new
    assert {tuple(sorted(label)) for label in given["labels"][:old]} == {(0.0, 1.0)}
    assert any(0.0 < label[0] < 1.0 for label in given["labels"][old:])


def test_two_at_a_time_give_the_same(source: OwnTask, settings: BenchmarkSettings, tmp_path: Path) -> None:
    cells = grid(source, settings, seeds=1)
    for workers in (1, 2):
        run_grid(cells, settings, tmp_path / str(workers), workers=workers, progress=False)
    one, two = ([cell["scores"] for cell in read_cells(tmp_path / str(workers) / CELLS)] for workers in (1, 2))
    assert one == two


def test_cells_with_the_same_rows_are_one_job_unless_workers_would_wait(
    source: OwnTask, settings: BenchmarkSettings
) -> None:
    cells = grid(source, settings, "vanilla,eda", seeds=8)
    jobs = _jobs(cells, workers=2)
    assert [(job[0].seed, len(job)) for job in jobs] == [(seed, 2) for seed in range(8)]
    assert [cell for job in jobs for cell in job] == cells
    assert [len(job) for job in _jobs(cells[:14], workers=2)] == [1] * 14


def test_each_domain_trains_and_all_are_tested(source: OwnTask, settings: BenchmarkSettings) -> None:
    by_domain = replace(source, domain="domain")
    cells = grid(by_domain, settings, "vanilla", seeds=1)
    assert [cell.domain for cell in cells] == ["city", "film", "man"]
    result = run_cell(cells[1], settings)
    assert set(result["scores"]) == {"city", "film", "man"}
    assert result["accuracy"] == result["scores"]["film"]["accuracy"]


def test_impossible_cells_are_known_beforehand(source: OwnTask, settings: BenchmarkSettings) -> None:
    with pytest.raises(LindaError, match="the class 0 has 20 rows to draw 21 from"):
        make_grid([(source, [Protocol(shots=21)])], [parse_recipe("vanilla")], [0], settings)
    with pytest.raises(LindaError, match="--translate THERE BACK"):
        make_grid([(source, [Protocol()])], [parse_recipe("backtranslation")], [0], settings)


def test_rates_are_compared_on_training_rows(source: OwnTask, settings: BenchmarkSettings, tmp_path: Path) -> None:
    accuracy = search_rate([(source, [Protocol(shots=4)])], settings, tmp_path, workers=1, progress=False)
    assert list(accuracy) == list(RATES)
    cells = list(read_cells(tmp_path / "rates" / "0.0001" / CELLS))
    assert {cell["settings"]["on"] for cell in cells} == {"validation"}
    assert {cell["method"] for cell in cells} == {"vanilla"}
    other = tmp_path / "rates" / "0.0001" / CELLS / "other.json"  # of a search over more tasks, in the same folder
    other.write_text(json.dumps({**cells[0], "accuracy": 1000.0}))
    assert search_rate([(source, [Protocol(shots=4)])], settings, tmp_path, workers=1, progress=False) == accuracy


def test_methods_of_a_seed_share_their_teacher(
    source: OwnTask, settings: BenchmarkSettings, tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = []
    fit = TextClassifier.fit

    def counted(self: TextClassifier, texts: Any, *more: Any, **settings: Any) -> TextClassifier:
        fits.append(len(texts))
        return fit(self, texts, *more, **settings)

    monkeypatch.setattr(TextClassifier, "fit", counted)
    with_model = replace(settings, epochs=2, models=Models(linda=str(tiny_model_folder)))
    for method in ("eda+keep=0.1", "eda+labels=predicted"):
        run_cell(Cell(source, Protocol(shots=4), parse_recipe(method), seed=0), with_model)
    assert len(fits) == 3  # one teacher, two students
    run_cell(Cell(source, Protocol(shots=4), parse_recipe("eda+keep=0.1"), seed=1), with_model)
    assert len(fits) == 5


def test_a_long_domain_is_still_a_file_name(source: OwnTask) -> None:
    cells = [Cell(source, Protocol(shots=4), parse_recipe("eda"), 0, domain="ü" * 300 + end) for end in "ab"]
    names = {cell.file_name for cell in cells}
    assert len(names) == 2
    assert all(len(name.encode()) < 230 for name in names)


def test_settings_are_known_values() -> None:
    with pytest.raises(LindaError, match="budget is 'step'; give updates or epochs"):
        BenchmarkSettings(budget="step")
    with pytest.raises(LindaError, match="on is 'valid'; give test or validation"):
        BenchmarkSettings(on="valid")
