"""Cells put together: the accuracies of each method in each column, by seed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import mean
from typing import Any

from linda.benchmark.methods import method_names
from linda.benchmark.paper import Column
from linda.benchmark.statistics import Difference, Summary, paired_difference, summary
from linda.benchmark.tasks import known_tasks

VANILLA = "vanilla"
IN_DOMAIN, OUT_OF_DOMAIN = "in domain", "out of domain"

Scores = dict[int, float]  # by seed


@dataclass(frozen=True)
class Results:
    """scores: by column and method. matrices: by task, protocol, method and (training, test) domain."""

    scores: dict[Column, dict[str, Scores]]
    matrices: dict[tuple[str, str], dict[str, dict[tuple[str, str], Scores]]]
    cells: list[dict[str, Any]]

    @property
    def columns(self) -> list[Column]:
        return list(self.scores)

    @property
    def methods(self) -> list[str]:
        """Vanilla first, then in the order in which methods are known, each with its variants."""
        known = method_names()
        found = {method for by_method in self.scores.values() for method in by_method}
        return sorted(found, key=lambda method: (known.index(method.split("+")[0]), method))

    def summary(self, column: Column, method: str) -> Summary | None:
        scores = self.scores[column].get(method)
        return summary(scores) if scores else None

    def gain(self, column: Column, method: str) -> Difference | None:
        """Over vanilla, paired by seed."""
        by_method = self.scores[column]
        return paired_difference(by_method.get(method, {}), by_method.get(VANILLA, {}))

    def gain_over(self, columns: Iterable[Column], method: str) -> Difference | None:
        """Over vanilla on several columns: the mean of a seed's columns is one observation."""
        parts = [self.scores[column] for column in columns]
        if any(method not in part or VANILLA not in part for part in parts):
            return None
        return paired_difference(_mean_scores([p[method] for p in parts]), _mean_scores([p[VANILLA] for p in parts]))

    def best(self, column: Column) -> set[str]:
        """The method with the highest mean; several where they are equal."""
        means = {method: round(summary(scores).mean, 6) for method, scores in self.scores[column].items() if scores}
        return {method for method, found in means.items() if found == max(means.values())}


def collect(cells: Iterable[dict[str, Any]]) -> Results:
    cells = list(cells)
    scores: dict[Column, dict[str, Scores]] = defaultdict(lambda: defaultdict(dict))
    matrices: dict[tuple[str, str], dict[str, dict[tuple[str, str], Scores]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(dict))
    )
    for cell in cells:
        task, protocol, method, seed = cell["task"], cell["protocol"], cell["method"], cell["seed"]
        for test, accuracy in cell["scores"].items():
            if cell["domain"] is None:
                scores[task, protocol, test][method][seed] = accuracy
            else:
                matrices[task, protocol][method][cell["domain"], test][seed] = accuracy
    for (task, protocol), by_method in matrices.items():
        for method, matrix in by_method.items():
            inside = [by_seed for (trained, tested), by_seed in matrix.items() if trained == tested]
            outside = [by_seed for (trained, tested), by_seed in matrix.items() if trained != tested]
            scores[task, protocol, IN_DOMAIN][method] = _mean_scores(inside)
            scores[task, protocol, OUT_OF_DOMAIN][method] = _mean_scores(outside)
    ordered = dict(sorted(scores.items(), key=lambda item: _place(item[0], cells)))
    return Results(ordered, dict(matrices), cells)


def _mean_scores(parts: list[Scores]) -> Scores:
    """By seed, over the seeds that all parts have."""
    seeds = set.intersection(*(set(part) for part in parts)) if parts else set()
    return {seed: mean(part[seed] for part in parts) for seed in sorted(seeds)}


def _place(column: Column, cells: list[dict[str, Any]]) -> tuple[Any, ...]:
    """Tasks in the paper's order, others by name; few shots before many, shots before sizes, full sets last."""
    task, protocol, test = column
    cell = next(cell for cell in cells if cell["task"] == task and cell["protocol"] == protocol)
    known = known_tasks()
    place = known.index(task) if task in known else len(known)
    return place, task, cell["shots"] or float("inf"), cell["train_size"] or float("inf"), test
