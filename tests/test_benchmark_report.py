import csv
import json
from pathlib import Path
from typing import Any

import pytest

from linda.benchmark.grid import CELLS, COMMANDS
from linda.benchmark.recipes import parse_recipe
from linda.benchmark.reporting.advice import advise
from linda.benchmark.reporting.paper import EXPERIMENTS, PAPER_SCORES, find_experiment
from linda.benchmark.reporting.report import write_report
from linda.benchmark.reporting.results import collect
from linda.benchmark.tasks import known_tasks
from linda.errors import LindaError
from linda.evaluation.statistics import paired_difference, summarize


def cell(method: str, seed: int, accuracy: float, task: str = "sst2", shots: int = 5, **more: Any) -> dict[str, Any]:
    return {
        "task": task,
        "method": method,
        "protocol": f"{shots}-shot",
        "shots": shots,
        "train_size": None,
        "domain": None,
        "seed": seed,
        "scores": {"test": accuracy},
        "rows": 10,
        "new_rows": 10,
        "updates": 60,
        "source": "a folder of tasks",
        "date": "2026-01-02",
        "machine": "2 cores",
        "policy": {"per_row": 1} if method != "vanilla" else None,
        "test_rows": {"test": 100},
        "settings": {"encoder": "tiny", "on": "test", "test_size": 100},
        "notes": [],
        "seconds": {"train": 30.0},
        **more,
    }


def several(method: str, accuracies: list[float], **more: Any) -> list[dict[str, Any]]:
    return [cell(method, seed, accuracy, **more) for seed, accuracy in enumerate(accuracies)]


VANILLA = several("vanilla", [60.0, 62.0, 70.0])


def test_differences_are_paired_by_seed() -> None:
    # The ranges of the methods overlap, but paired by seed, one is 2 ± 0.1 better.
    difference = paired_difference({0: 62.0, 1: 64.1, 2: 71.9, 9: 0.0}, {0: 60.0, 1: 62.0, 2: 70.0, 8: 99.0})
    assert difference is not None
    assert difference.count == 3
    assert difference.mean == pytest.approx(2.0)
    assert difference.margin == pytest.approx(4.303 * 0.1 / 3**0.5, rel=1e-3)  # t of two degrees of freedom
    assert difference.is_clear
    assert paired_difference({0: 1.0}, {1: 1.0}) is None
    single = paired_difference({0: 1.0}, {0: 0.0})
    assert single is not None
    assert not single.is_clear


def test_seeds_that_agree_are_no_certainty() -> None:
    agreeing = paired_difference({0: 60.5, 1: 70.5}, {0: 60.0, 1: 70.0})
    assert agreeing is not None
    assert agreeing.margin == 0
    assert not agreeing.is_clear


def test_summary_has_the_sample_deviation() -> None:
    found = summarize({0: 1.0, 1: 2.0, 2: 3.0})
    assert (found.mean, found.std, found.count) == (2.0, 1.0, 3)
    assert summarize({0: 1.0}).std is None


def test_advice_names_what_helps_what_hurts_and_what_is_noise() -> None:
    results = collect(
        VANILLA
        + several("linda", [62.0, 64.1, 71.9])
        + several("eda", [50.0, 52.0, 60.5])
        + several("mixup", [55.0, 66.0, 70.0])
    )
    assert advise(results) == [
        "On sst2 (5-shot): linda gains 2.0 ± 0.2 points over vanilla; eda loses 9.8 ± 0.7 points; "
        "the others are within noise."
    ]


def test_advice_says_when_nothing_helps_or_nothing_can_be_known() -> None:
    nothing = collect(VANILLA + several("linda", [55.0, 66.0, 70.0]))
    assert advise(nothing) == [
        "On sst2 (5-shot): nothing helps beyond noise, so do not augment; linda -0.3 is within noise."
    ]
    one = collect(VANILLA[:1] + several("linda", [90.0]))
    assert advise(one) == ["On sst2 (5-shot): one seed is too few to distinguish a gain from chance; use --seeds 5."]
    assert "nothing to compare" in advise(collect(VANILLA))[0]


def test_advice_joins_the_protocols_of_a_task() -> None:
    results = collect(
        VANILLA
        + several("linda", [61.0, 63.1, 70.9])
        + several("vanilla", [70.0, 72.0, 80.0], shots=10)
        + several("linda", [73.0, 75.1, 82.9], shots=10)
    )
    assert advise(results) == ["On sst2 (5-shot, 10-shot): linda gains 2.0 ± 0.2 points over vanilla."]


def test_advice_says_where_a_method_was_tried_in_part() -> None:
    ten = several("vanilla", [70.0, 72.0, 80.0], shots=10) + several("eda", [69.0, 73.0, 79.5], shots=10)
    results = collect(VANILLA + several("eda", [59.0, 63.0, 69.0]) + several("linda", [62.0, 64.1, 71.9]) + ten)
    assert advise(results) == [
        "On sst2 (5-shot, 10-shot): linda (5-shot) gains 2.0 ± 0.2 points over vanilla; the others are within noise."
    ]


def test_advice_knows_nothing_of_a_single_seed() -> None:
    results = collect(VANILLA + several("eda", [59.0, 63.0, 69.0]) + several("linda", [65.0]))
    assert advise(results) == [
        "On sst2 (5-shot): nothing helps beyond noise, so do not augment; eda -0.3 is within noise; "
        "one seed of linda is too few to distinguish a gain from chance."
    ]


def write_cells(folder: Path, cells: list[dict[str, Any]]) -> None:
    (folder / CELLS).mkdir(parents=True)
    for number, content in enumerate(cells):
        (folder / CELLS / f"{number}.json").write_text(json.dumps(content))


def test_report_and_csv(tmp_path: Path) -> None:
    write_cells(tmp_path, VANILLA + several("linda", [62.0, 64.1, 71.9]) + several("vanilla", [80.0], shots=10))
    (tmp_path / COMMANDS).write_text("linda bench --tasks sst2\n")
    report = write_report(tmp_path)
    assert "| method | sst2 5-shot | sst2 10-shot |" in report
    assert "| vanilla | 64.0 ± 5.3 | **80.0** (1 seed) |" in report
    assert "| linda | **66.0 ± 5.2** |  |" in report
    assert "| linda | **+2.0 ± 0.2** |  |" in report
    assert "| linda | **+2.0 ± 0.2** | 1 of 1 | 1 of 2 |" in report
    assert "| linda-raw | 63.5 ± 4.4 | 66.5 ± 3.8 |" in report  # the paper's
    assert "- command: `linda bench --tasks sst2`" in report
    assert "| rows tested | 100 | 100 |" in report
    with (tmp_path / "results.csv").open() as file:
        rows = {(row["protocol"], row["method"]): row for row in csv.DictReader(file)}
    assert rows["5-shot", "linda"]["gain"] == "2.000"
    assert rows["5-shot", "linda"]["paper_mean"] == ""  # same-label partners, calibrated: not the paper's policy
    assert rows["5-shot", "vanilla"]["paper_mean"] == "59.800"
    assert rows["10-shot", "vanilla"]["std"] == ""
    for name in ("accuracy.png", "gain.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_the_papers_linda_stands_beside_the_method_of_its_policy(tmp_path: Path) -> None:
    models = {"encoder": "tiny", "on": "test", "test_size": 100, "budget": "updates", "linda_model": "embedded 0123"}
    cells = VANILLA + several("eda", [60.0], policy={"gates": True})
    cells += several("linda-raw", [61.0], settings=models) + several("linda", [62.0], settings=models)
    cells += several("ssmba+gates=false", [62.0], settings=models, policy={"gates": False})
    write_cells(tmp_path, [{**one, "settings": {**one["settings"], "budget": "updates"}} for one in cells])
    report = write_report(tmp_path)
    rows = {row["method"]: row for row in csv.DictReader((tmp_path / "results.csv").open())}
    assert {name: row["paper_mean"] for name, row in rows.items()} == {
        "vanilla": "59.800",
        "eda": "62.300",
        "ssmba+gates=false": "60.300",
        "linda-raw": "63.500",
        "linda": "",
    }
    papers = report.split("## The paper's own scores")[1].split("\n## ")[0]
    assert "| linda |" not in papers
    for line in (
        "- encoder: tiny (the paper: BERT-base)",
        "- budget: equal updates for all methods (the paper: equal epochs)",
        "- at most 100 test rows (the paper: all)",
        "- rejected texts are written again or left out: eda (the paper keeps every row)",
        "- LINDA model: embedded 0123 (the paper: BART-large, trained on a million pairs of Wikipedia sentences)",
        "- SSMBA fills in masks with the LINDA model (the paper: a masked language model)",
    ):
        assert line in papers


def test_the_budget_of_an_earlier_version() -> None:
    old = [cell("vanilla", 0, 60.0, settings={"on": "test", "match": word}) for word in ("steps", "epochs")]
    assert [collect([one]).cells[0]["settings"]["budget"] for one in old] == ["updates", "epochs"]
    with pytest.raises(LindaError, match="sst2 has cells with budget updates, but others with epochs"):
        collect(old)


def test_the_papers_figures_do_not_stand_beside_a_search(tmp_path: Path) -> None:
    write_cells(tmp_path, several("vanilla", [60.0, 62.0], settings={"encoder": "tiny", "on": "validation"}))
    report = write_report(tmp_path)
    assert "for choosing settings, not a result" in report
    assert "paper" not in report
    assert next(csv.DictReader((tmp_path / "results.csv").open()))["paper_mean"] == ""


def test_nor_beside_a_file_of_ones_own(tmp_path: Path) -> None:
    write_cells(tmp_path, several("vanilla", [60.0, 62.0], source="own files"))
    assert "paper" not in write_report(tmp_path)


def test_nor_are_full_figures_beside_a_sample(tmp_path: Path) -> None:
    sample: dict[str, Any] = {"source": "a folder with a sample of the training rows"}
    full = {"protocol": "full", "shots": None, **sample}
    write_cells(tmp_path, several("vanilla", [60.0], **sample) + several("vanilla", [90.0], **full))
    assert "| vanilla | 59.8 ± 6.8 |  |" in write_report(tmp_path)


def test_cells_that_cannot_be_compared_have_no_report(tmp_path: Path) -> None:
    longer = {"encoder": "tiny", "on": "test", "epochs": 30}
    write_cells(tmp_path, several("vanilla", [60.0]) + several("eda", [65.0], settings={**longer, "on": "validation"}))
    with pytest.raises(LindaError, match="has cells with on"):
        write_report(tmp_path)


def test_neither_have_shots_of_different_data_or_a_search_beside_a_result() -> None:
    def with_settings(shots: int, task: str = "sst2", **changed: Any) -> dict[str, Any]:
        return cell("vanilla", 0, 60.0, task, shots, settings={"on": "test", "data": "a", "epochs": 30, **changed})

    collect([with_settings(5), with_settings(10, epochs=20), with_settings(5, "imdb", data="b")])
    with pytest.raises(LindaError, match="sst2 has cells with data a, but others with b"):
        collect([with_settings(5), with_settings(10, data="b")])
    with pytest.raises(LindaError, match="the folder has cells with on test, but others with validation"):
        collect([with_settings(5), with_settings(5, "imdb", on="validation")])


def test_fewer_seeds_are_said_and_not_best(tmp_path: Path) -> None:
    write_cells(tmp_path, VANILLA + several("eda", [69.0, 71.0]))
    report = write_report(tmp_path)
    assert "| eda | 70.0 ± 1.4 (2 seeds) |" in report
    assert "| vanilla | **64.0 ± 5.3** |" in report
    assert "| eda | +9.0 ± 0.0 (2 seeds) | 1 of 1 | 0 of 1 |" in report


def test_conditions_are_those_of_the_cells(tmp_path: Path) -> None:
    write_cells(tmp_path, several("vanilla", [60.0]) + several("eda", [65.0], date="2026-01-05", machine="9 cores"))
    report = write_report(tmp_path)
    assert "- 2026-01-02 to 2026-01-05, 2 cores and 9 cores, 1 minutes of computation" in report
    assert "| rows tested | 100 |" in report


def test_every_accuracy_is_written_by_seed(tmp_path: Path) -> None:
    write_cells(tmp_path, VANILLA)
    write_report(tmp_path)
    rows = list(csv.DictReader((tmp_path / "cells.csv").open()))
    assert [(row["seed"], row["accuracy"]) for row in rows] == [("0", "60.0"), ("1", "62.0"), ("2", "70.0")]


def test_a_thousandth_of_a_point_is_no_first_place() -> None:
    results = collect(several("vanilla", [60.0, 62.0]) + several("eda", [60.001, 62.0]))
    assert results.best(results.columns[0]) == {"vanilla", "eda"}


def test_equals_share_the_first_place() -> None:
    results = collect(several("vanilla", [60.0, 70.0]) + several("eda", [70.0, 60.0]) + several("mixup", [50.0, 50.0]))
    assert results.best(results.columns[0]) == {"vanilla", "eda"}


def test_domains_become_a_matrix_and_two_columns(tmp_path: Path) -> None:
    def by_domain(method: str, domain: str, scores: dict[str, float]) -> dict[str, Any]:
        return cell(method, 0, 0.0, "movies", domain=domain, scores=scores, protocol="full", shots=None)

    cells = [
        by_domain("vanilla", "imdb", {"imdb": 90.0, "sst2": 80.0}),
        by_domain("vanilla", "sst2", {"imdb": 70.0, "sst2": 92.0}),
    ]
    results = collect(cells)
    assert results.scores["movies", "full", "in domain"]["vanilla"] == {0: 91.0}
    assert results.scores["movies", "full", "out of domain"]["vanilla"] == {0: 75.0}
    write_cells(tmp_path, cells)
    report = write_report(tmp_path)
    assert "| vanilla | imdb | sst2 |" in report
    assert "| sst2 | 80.0 | 92.0 |" in report  # tested on sst2, trained on imdb and on sst2
    assert "| linda-raw-best-label | 91.0 ± 0.2 | 85.7 ± 0.9 |" in report


def test_a_mean_over_domains_is_over_all_of_them(tmp_path: Path) -> None:
    def by_domain(method: str, domain: str, accuracy: float) -> dict[str, Any]:
        more = {"domain": domain, "scores": {domain: accuracy}, "test_rows": {domain: 10}}
        return cell(method, 0, accuracy, "movies", **more)

    cells = [by_domain("vanilla", "imdb", 80.0), by_domain("vanilla", "sst2", 92.0), by_domain("eda", "sst2", 92.0)]
    results = collect(cells)
    assert results.columns == [("movies", "5-shot", "in domain")]  # nothing was tested out of its domain
    assert results.scores[results.columns[0]] == {"vanilla": {0: 86.0}}
    assert advise(collect([*cells, by_domain("eda", "imdb", 80.0)])) == [
        "On movies (5-shot): one seed is too few to distinguish a gain from chance; use --seeds 5."
    ]


def test_no_results_and_damaged_ones(tmp_path: Path) -> None:
    with pytest.raises(LindaError, match="there are no results in"):
        write_report(tmp_path)
    (tmp_path / CELLS).mkdir()
    for content in ("{", "[]", "{}", '{"task": "sst2"}'):
        (tmp_path / CELLS / "a.json").write_text(content)
        with pytest.raises(LindaError, match=r"a.json is not a result of linda bench"):
            write_report(tmp_path)


def test_methods_of_another_version_come_last() -> None:
    assert collect(several("magic", [50.0]) + several("eda", [50.0])).methods == ["eda", "magic"]


def test_the_papers_figures() -> None:
    # Table 2, low and full (without LINDA); Table 3; Appendix C, four of whose scores are in Table 3 too.
    assert len(PAPER_SCORES) == 5 * 8 + 5 * 4 + 6 * 6 + 3 * 8 - 4
    assert PAPER_SCORES[("trec-coarse", "5-shot", "test"), "vanilla"] == (61.2, 7.63)
    assert PAPER_SCORES[("imdb", "10-shot", "test"), "linda-raw"] == (71.0, 1.61)
    assert PAPER_SCORES[("mnli", "25000 rows", "mismatched"), "linda-raw-predicted"] == (78.0, 0.29)
    low = [column for column, method in PAPER_SCORES if method == "linda-raw" and column[1].endswith("shot")]
    gains = [PAPER_SCORES[column, "linda-raw"][0] - PAPER_SCORES[column, "vanilla"][0] for column in low]
    assert sum(gains) / len(gains) == pytest.approx(2.7, abs=0.1)  # 2.76 points above vanilla on average
    # LINDA of Table 2, full: the best of the labels of Appendix C.
    best = {"trec-coarse": "linda-raw", "trec-fine": "linda-raw-sharpened"}
    best |= {"sst2": "linda-raw-predicted", "imdb": "linda-raw-predicted"}
    full = [PAPER_SCORES[(task, "full", "test"), method] for task, method in best.items()]
    assert full == [(97.6, 0.36), (91.6, 0.75), (92.8, 0.34), (89.3, 0.18)]
    assert not any(method == "linda" for _, method in PAPER_SCORES)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiments_are_of_known_tasks_and_methods(name: str) -> None:
    for profile in ("paper", "laptop"):
        experiment = find_experiment(name, profile)
        assert set(experiment.tasks) <= set(known_tasks())
        assert [parse_recipe(method).name for method in experiment.methods] == list(experiment.methods)


def scored(method: str, seed: int, **metrics: float) -> dict[str, Any]:
    settings = {"encoder": "tiny", "on": "test", "student": "probe", "folds": 5}
    return cell(method, seed, 0.0, scores={"test": metrics}, settings=settings)


LOSSES = [
    *(scored("vanilla", seed, accuracy=60.0 + seed, log_loss=1.0 + seed / 10, auc=80.0) for seed in range(4)),
    *(scored("eda", seed, accuracy=70.0 + 2 * seed, log_loss=1.2 + seed / 9, auc=80.0) for seed in range(4)),
    *(scored("linda", seed, accuracy=50.0 + 2 * seed, log_loss=0.6 + seed / 9, auc=80.0) for seed in range(4)),
]


def test_the_metric_decides_the_advice() -> None:
    assert advise(collect(LOSSES)) == [
        "On sst2 (5-shot): eda gains 11.5 ± 2.1 points over vanilla; linda loses 8.5 ± 2.1 points."
    ]
    assert advise(collect(LOSSES, "log_loss")) == [
        "On sst2 (5-shot): linda lowers log_loss by 0.383 ± 0.023 nats over vanilla; "
        "eda raises log_loss by 0.217 ± 0.023 nats."
    ]


def test_lower_is_better_for_a_loss() -> None:
    results = collect(LOSSES, "log_loss")
    assert results.best(results.columns[0]) == {"linda"}


def test_another_method_can_be_the_baseline() -> None:
    results = collect(LOSSES, "log_loss", baseline="linda")
    assert results.compared == ["vanilla", "eda"]
    assert advise(results)[0].startswith("On sst2 (5-shot): nothing helps beyond noise, so do not augment; eda raises")


def test_the_report_has_every_metric_and_what_was_detectable(tmp_path: Path) -> None:
    write_cells(tmp_path, LOSSES)
    report = write_report(tmp_path, "log_loss")
    assert "## log_loss in nats, lower is better: mean ± standard deviation over 4 seeds" in report
    assert "## All metrics: sst2 5-shot" in report
    assert "| method | accuracy | auc | log_loss |" in report
    assert "| vanilla | 61.5 ± 1.3 | **80.0 ± 0.0** | 1.150 ± 0.129 |" in report
    assert "| minus vanilla | accuracy | auc | log_loss |" in report
    assert "| linda | **-8.5 ± 2.1** | +0.0 ± 0.0 | **-0.383 ± 0.023** |" in report
    difference = paired_difference({0: 0.0, 1: 1.0, 2: 2.0, 3: 3.0}, dict.fromkeys(range(4), 0.0))
    assert difference is not None
    assert difference.detectable is not None
    assert f"| detectable at 80 % power | {difference.detectable:.1f} | 0.0 | 0.0" in report
    assert "| method | mean gain | below vanilla in | best in | detectable at 80 % power |\n" in report
    lines = report.splitlines()
    ranked = [
        line.split(" | ")[0] for line in lines[lines.index(next(x for x in lines if "below vanilla" in x)) + 2 :][:2]
    ]
    assert ranked == ["| linda", "| eda"]  # the best first
    assert (tmp_path / "log_loss.png").exists()
    rows = list(csv.DictReader((tmp_path / "results.csv").open()))
    assert [row["metric"] for row in rows if row["method"] == "eda"] == ["accuracy", "auc", "log_loss"]
    assert {row["detectable_80"] for row in rows if row["method"] == "vanilla"} == {""}
    assert float(next(row["detectable_80"] for row in rows if row["method"] == "eda")) > 0
    seeds = list(csv.DictReader((tmp_path / "cells.csv").open()))
    assert seeds[0]["log_loss"] == "1.0"


def test_a_metric_or_baseline_that_no_cell_has(tmp_path: Path) -> None:
    write_cells(tmp_path, LOSSES)
    with pytest.raises(LindaError, match=r"no cell has the metric 'ece' \(--metric\); the cells have accuracy, auc"):
        write_report(tmp_path, "ece")
    with pytest.raises(LindaError, match=r"no cells of 'mixup' \(--baseline\); there are vanilla, eda, linda"):
        write_report(tmp_path, baseline="mixup")


def test_cells_of_an_earlier_version_have_accuracy_alone(tmp_path: Path) -> None:
    write_cells(tmp_path, VANILLA)
    assert "All metrics" not in write_report(tmp_path)
    (tmp_path / CELLS / "new.json").write_text(json.dumps(scored("eda", 0, accuracy=1.0)))
    with pytest.raises(LindaError, match="sst2 has cells with student finetune, but others with probe"):
        write_report(tmp_path)


def test_cells_without_the_newest_metrics_are_reported_beside_cells_with_them(tmp_path: Path) -> None:
    old = [scored("vanilla", seed, accuracy=60.0) for seed in (0, 1)]
    new = [scored("eda", seed, accuracy=60.0, error_auroc=70.0) for seed in (0, 1)]
    write_cells(tmp_path, old + new)
    report = write_report(tmp_path)
    assert "| method | accuracy | error_auroc |" in report
    assert "| vanilla | **60.0 ± 0.0** |  |" in report
    assert "| eda | **60.0 ± 0.0** | **70.0 ± 0.0** |" in report


def test_rare_classes_and_noise_are_columns_in_order() -> None:
    def with_protocol(name: str, **more: Any) -> dict[str, Any]:
        return cell("vanilla", 0, 60.0, protocol=name, shots=None, **more)

    cells = [
        with_protocol("30:90 b", imbalance=[30, 90]),
        with_protocol("5:50 b noise 0.2", imbalance=[5, 50], label_noise=0.2),
        with_protocol("full"),
        with_protocol("5:50 b", imbalance=[5, 50]),
        with_protocol("5:50 a", imbalance=[5, 50]),
    ]
    columns = [protocol for _, protocol, _ in collect(cells).columns]
    assert columns == ["5:50 a", "5:50 b", "5:50 b noise 0.2", "30:90 b", "full"]


SINGLE = {"trec-coarse": None, "trec-fine": None, "sst2": None, "imdb": None}
PAIRS = {"rte": None, "qnli": 25_000, "mnli": 25_000}
BASELINES = {"vanilla", "eda", "ssmba", "mixup", "linda-raw"}
LABELS = {"vanilla", "linda-raw", "linda-raw-sharpened", "linda-raw-predicted"}


@pytest.mark.parametrize(
    ("name", "shots", "rows", "methods"),
    [
        ("low-resource", (5, 10), SINGLE, BASELINES),
        ("full", (), SINGLE, BASELINES | LABELS),
        ("nli", (), PAIRS, BASELINES | LABELS),
        ("ood", (), {"movies": None, "womens-clothing": None, "yelp-cuisine": None}, BASELINES | LABELS),
        ("labels", (), SINGLE | PAIRS, LABELS),
    ],
)
def test_the_profile_of_the_paper_has_its_settings(
    name: str, shots: tuple[int, ...], rows: dict[str, Any], methods: set[str]
) -> None:
    """§5 and Appendix B: BERT-base on whole texts, equal epochs, these tasks and samples."""
    experiment = find_experiment(name, "paper")
    assert experiment.encoder == "google-bert/bert-base-uncased"
    assert (experiment.max_length, experiment.budget, experiment.test_size) == (512, "epochs", None)
    assert experiment.shots == shots
    assert {task: experiment.rows_of(task) for task in experiment.tasks} == rows
    assert methods <= set(experiment.methods)
    drawn = {(task, protocol.name) for task in experiment.tasks for protocol in experiment.draws(task)}
    full = {(task, "full" if size is None else f"{size} rows") for task, size in rows.items()}
    assert drawn == ({(task, f"{number}-shot") for task in rows for number in shots} or full)
    assert (experiment.as_published, experiment.engine, experiment.learning_rate) == (True, "torch", 3e-5)
    raw = parse_recipe("linda-raw").policy
    assert (raw.partners, raw.raw_ratio, raw.labels, raw.per_row) == ("any", True, "interpolated", 1)
    assert (raw.gates, raw.ratio, raw.weight) == (False, "uniform", 1)
    sharpened, predicted = (parse_recipe(f"linda-raw-{kind}").policy for kind in ("sharpened", "predicted"))
    assert (sharpened.partners, sharpened.raw_ratio, sharpened.labels) == ("any", True, "sharpened")
    assert (predicted.partners, predicted.raw_ratio, predicted.labels) == ("any", True, "predicted")


def test_the_profile_of_a_laptop_is_smaller_and_never_trains_longer_for_more_rows() -> None:
    for name in EXPERIMENTS:
        experiment = find_experiment(name, "laptop")
        assert experiment.budget == "updates"
        assert experiment.max_length <= 128
        assert experiment.test_size == 2000
        assert not experiment.as_published
        assert experiment.methods == find_experiment(name, "paper").methods
        assert experiment.train_size == {"low-resource": None, "ood": 250}.get(name, 1000)
