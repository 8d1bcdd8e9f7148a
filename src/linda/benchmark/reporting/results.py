"""Aggregated cells: the scores of each method in each column, by seed, for one metric."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from linda.benchmark.cells import Cell, check_comparable, upgraded
from linda.benchmark.protocol import FULL
from linda.benchmark.recipes import VANILLA, recipe_names
from linda.benchmark.reporting.paper import PAPER_SCORES, Column, PaperScore
from linda.benchmark.settings import BenchmarkSettings
from linda.benchmark.tasks import OWN_FILES, SAMPLE, known_tasks
from linda.errors import LindaError
from linda.evaluation.metrics import METRICS, TUNED, Metric, find_metric
from linda.evaluation.statistics import Difference, ScoreSummary, paired_difference, summarize

IN_DOMAIN, OUT_OF_DOMAIN = "in domain", "out of domain"

SeedScores = dict[int, float]  # by seed

# Scores in percent are rounded to a thousandth of a point: means that differ by less are equal.
TIE = 0.001


@dataclass(frozen=True)
class Results:
    """The scores of one metric.

    Attributes:
        scores: By column and method.
        matrices: By task, protocol, method and (training, test) domain.
        cells: The cells that they were read from.
        metric: The metric of the scores.
        baseline: The method that others are compared with.
    """

    scores: dict[Column, dict[str, SeedScores]]
    matrices: dict[tuple[str, str], dict[str, dict[tuple[str, str], SeedScores]]]
    cells: list[dict[str, Any]]
    metric: Metric
    baseline: str = VANILLA

    @property
    def columns(self) -> list[Column]:
        return list(self.scores)

    @property
    def methods(self) -> list[str]:
        """In the order of `recipe_names`, vanilla first, each with its variants."""
        known = recipe_names()
        found = {method for by_method in self.scores.values() for method in by_method}
        place = {name: number for number, name in enumerate(known)}
        return sorted(found, key=lambda method: (place.get(method.split("+")[0], len(known)), method))

    @property
    def compared(self) -> list[str]:
        """All methods except the baseline; none if the baseline was not run."""
        return [method for method in self.methods if method != self.baseline] if self.baseline in self.methods else []

    def of(self, metric: str) -> Results:
        """Return the results of the same cells by another metric."""
        return collect(self.cells, metric, self.baseline)

    @property
    def metrics(self) -> list[str]:
        """All metrics that any cell has, each followed by its tuned version."""
        found = {name for cell in self.cells for scores in cell["scores"].values() for name in scores}
        known = [name for metric in METRICS for name in (metric, metric + TUNED)]
        return [name for name in known if name in found] + sorted(found - set(known))

    def summary(self, column: Column, method: str) -> ScoreSummary | None:
        scores = self.scores.get(column, {}).get(method)
        return summarize(scores) if scores else None

    def gain(self, column: Column, method: str) -> Difference | None:
        """Compare the method with the baseline, paired by seed."""
        by_method = self.scores.get(column, {})
        return paired_difference(by_method.get(method, {}), by_method.get(self.baseline, {}))

    def gains(self, columns: Iterable[Column], method: str) -> dict[Column, Difference]:
        """Compare in all columns in which both have scores."""
        return {column: gain for column in columns if (gain := self.gain(column, method)) is not None}

    def gain_over(self, columns: Iterable[Column], method: str) -> Difference | None:
        """Compare over several columns: the mean of a seed over the columns is one observation."""
        parts = [self.scores[column] for column in columns]
        return paired_difference(
            _mean_scores([part[method] for part in parts]), _mean_scores([part[self.baseline] for part in parts])
        )

    def improvement(self, gain: Difference) -> float:
        """Return the mean difference, positive if the method is better than the baseline."""
        return -gain.mean if self.metric.lower_is_better else gain.mean

    def detectable(self, column: Column) -> float | None:
        """Return the smallest difference that was detectable for all methods of the column with 80 % power."""
        gains = (self.gain(column, method) for method in self.compared)
        found = [gain.detectable for gain in gains if gain is not None and gain.detectable is not None]
        return max(found, default=None)

    def paper(self, column: Column, method: str) -> PaperScore | None:
        """Return the paper's score, if the column has the paper's data and is not from a search."""
        sources = {cell["source"] for cell in self.cells if cell["task"] == column[0]}
        is_other = OWN_FILES in sources or (SAMPLE in sources and column[1] == FULL)
        is_papers = self.metric.name == "accuracy" and not is_other and not self.is_validation
        # The paper has no gates: without them a method is as published.
        return PAPER_SCORES.get((column, method.removesuffix("+gates=false"))) if is_papers else None

    @property
    def is_validation(self) -> bool:
        return any(cell["settings"]["on"] == "validation" for cell in self.cells)

    def best(self, column: Column) -> set[str]:
        """Return the method with the best mean among those with all seeds; several if they are equal."""
        by_method = self.scores.get(column, {})
        most_seeds = max(map(len, by_method.values()), default=0)
        sign = -1 if self.metric.lower_is_better else 1
        means = {
            method: sign * summarize(scores).mean for method, scores in by_method.items() if len(scores) == most_seeds
        }
        return {method for method, found in means.items() if found > max(means.values()) - TIE}

    @property
    def all_seeds(self) -> int:
        """The number of seeds in any column."""
        return len({cell["seed"] for cell in self.cells})

    def rows_tested(self, column: Column) -> int:
        """Return the number of test rows, of all test domains together if there are several."""
        task, protocol, test = column
        cell = next(cell for cell in self.cells if (cell["task"], cell["protocol"]) == (task, protocol))
        rows: dict[str, int] = cell["test_rows"]
        return rows[test] if cell["domain"] is None else sum(rows.values())


def collect(cells: Iterable[dict[str, Any]], metric: str = "accuracy", baseline: str = VANILLA) -> Results:
    """Collect the scores of all cells by one metric. Cells without it are ignored."""
    cells = list(map(upgraded, cells))
    check_comparable(cells)
    scores: dict[Column, dict[str, SeedScores]] = defaultdict(lambda: defaultdict(dict))
    matrices: dict[tuple[str, str], dict[str, dict[tuple[str, str], SeedScores]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(dict))
    )
    for cell in cells:
        task, protocol, method, seed = cell["task"], cell["protocol"], cell["method"], cell["seed"]
        for test, found in cell["scores"].items():
            if metric not in found:
                continue
            if cell["domain"] is None:
                scores[task, protocol, test][method][seed] = found[metric]
            else:
                matrices[task, protocol][method][cell["domain"], test][seed] = found[metric]
    for (task, protocol), by_method in matrices.items():
        ways = {way for matrix in by_method.values() for way in matrix}  # (training, test) domain
        for name, is_inside in ((IN_DOMAIN, True), (OUT_OF_DOMAIN, False)):
            of_name = [way for way in ways if (way[0] == way[1]) is is_inside]
            for method, matrix in by_method.items():
                # Means over different sets of domains could not be compared.
                if found := _mean_scores([matrix.get(way, {}) for way in of_name]):
                    scores[task, protocol, name][method] = found
    ordered = dict(sorted(scores.items(), key=lambda item: _place(item[0], cells)))
    return Results(ordered, dict(matrices), cells, find_metric(metric), baseline)


def check_will_be_shown(
    grid: Sequence[Cell],
    earlier: Iterable[dict[str, Any]],
    settings: BenchmarkSettings,
    metric: str | None,
    baseline: str,
) -> None:
    """Raise a LindaError, before hours of work, if no cell will have the metric, or be of the baseline.

    Args:
        grid: The cells of this run.
        earlier: The cells that the folder has already.
        settings: The settings of the grid.
        metric: The metric of the report; None: the one that all cells have.
        baseline: The baseline of the report.
    """
    earlier = list(earlier)
    _check_baseline(baseline, sorted({cell.recipe.name for cell in grid} | {cell["method"] for cell in earlier}))
    if metric is None or any(metric in scores for cell in earlier for scores in cell["scores"].values()):
        return
    if metric.endswith(TUNED) and not settings.n_folds:
        raise LindaError(
            f"--metric {metric} needs a threshold tuned on folds of the training rows; give e.g. --folds 3"
        )
    _, is_of_class, name = metric.partition(":")
    draws = dict.fromkeys((cell.task, cell.protocol) for cell in grid) if is_of_class else {}
    rare = dict.fromkeys(str(known) for task, protocol in draws for known in protocol.rare_classes(task.load()))
    if is_of_class and name not in rare:
        there = f"the rare classes are {', '.join(rare)}" if rare else "no class is rare: choose one with --imbalance"
        raise LindaError(f"{name!r} is not a rare class (--metric {metric}); {there}")


def main_metric(cells: Iterable[dict[str, Any]]) -> str:
    """Return the default metric: accuracy, or average precision if rows have several labels."""
    has_accuracy = any("accuracy" in scores for cell in map(upgraded, cells) for scores in cell["scores"].values())
    return "accuracy" if has_accuracy else "average_precision"


def check_shown(results: Results) -> None:
    """Raise a LindaError if no cell has the metric, or if there are no cells of the baseline."""
    if not results.scores:
        raise LindaError(
            f"no cell has the metric {results.metric.name!r} (--metric); the cells have {', '.join(results.metrics)}"
        )
    _check_baseline(results.baseline, results.methods)


def _check_baseline(baseline: str, methods: list[str]) -> None:
    if baseline != VANILLA and baseline not in methods:
        raise LindaError(f"there are no cells of {baseline!r} (--baseline); there are {', '.join(methods)}")


def _mean_scores(parts: list[SeedScores]) -> SeedScores:
    """Average by seed, over the seeds that all parts have."""
    seeds = set.intersection(*(set(part) for part in parts)) if parts else set()
    return {seed: mean(part[seed] for part in parts) for seed in sorted(seeds)}


def _place(column: Column, cells: list[dict[str, Any]]) -> tuple[Any, ...]:
    """Sort tasks in the order of the paper, then by name; then by number of rows, full last; then by noise."""
    task, protocol, test = column
    cell = next(cell for cell in cells if cell["task"] == task and cell["protocol"] == protocol)
    known = known_tasks()
    place = known.index(task) if task in known else len(known)
    many = float("inf")
    size = cell["shots"] or many, tuple(cell["imbalance"] or (many,)), cell["train_size"] or many
    return place, task, *size, cell["label_noise"], protocol, test
