"""Cells put together: the accuracies of each method in each column, by seed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import mean
from typing import Any

from linda.benchmark.cells import check_comparable
from linda.benchmark.methods import method_names
from linda.benchmark.paper import FIGURES, Column, Figure
from linda.benchmark.protocol import FULL
from linda.benchmark.statistics import Difference, Summary, paired_difference, summary
from linda.benchmark.tasks import OWN_FILES, SAMPLE, known_tasks

VANILLA = "vanilla"
IN_DOMAIN, OUT_OF_DOMAIN = "in domain", "out of domain"

Scores = dict[int, float]  # by seed

# Accuracies are kept to a thousandth of a point: means that differ by less are equal.
TIE = 0.001


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
        place = {name: number for number, name in enumerate(known)}
        return sorted(found, key=lambda method: (place.get(method.split("+")[0], len(known)), method))

    def summary(self, column: Column, method: str) -> Summary | None:
        scores = self.scores[column].get(method)
        return summary(scores) if scores else None

    def gain(self, column: Column, method: str) -> Difference | None:
        """Over vanilla, paired by seed."""
        by_method = self.scores[column]
        return paired_difference(by_method.get(method, {}), by_method.get(VANILLA, {}))

    def gains(self, columns: Iterable[Column], method: str) -> dict[Column, Difference]:
        """Over vanilla, in those columns where the two can be compared."""
        return {column: gain for column in columns if (gain := self.gain(column, method)) is not None}

    def gain_over(self, columns: Iterable[Column], method: str) -> Difference | None:
        """Over vanilla on several columns: the mean of a seed's columns is one observation."""
        parts = [self.scores[column] for column in columns]
        return paired_difference(_mean_scores([p[method] for p in parts]), _mean_scores([p[VANILLA] for p in parts]))

    def paper(self, column: Column, method: str) -> Figure | None:
        """What the paper reports, where the column is the paper's: neither a search nor other data."""
        sources = {cell["source"] for cell in self.cells if cell["task"] == column[0]}
        is_other = OWN_FILES in sources or (SAMPLE in sources and column[1] == FULL)
        return None if is_other or self.is_validation else FIGURES.get((column, method))

    @property
    def is_validation(self) -> bool:
        return any(cell["settings"]["on"] == "validation" for cell in self.cells)

    def best(self, column: Column) -> set[str]:
        """The method with the highest mean, of those with every seed; several where they are equal."""
        whole = self.seeds(column)
        means = {m: summary(scores).mean for m, scores in self.scores[column].items() if len(scores) == whole}
        return {method for method, found in means.items() if found > max(means.values()) - TIE}

    def seeds(self, column: Column) -> int:
        """How many the method with the most has."""
        return max(map(len, self.scores[column].values()))

    @property
    def all_seeds(self) -> int:
        """How many there are in any column."""
        return len({cell["seed"] for cell in self.cells})

    def rows_tested(self, column: Column) -> int:
        """Of all test domains together, where there are several."""
        task, protocol, test = column
        cell = next(cell for cell in self.cells if (cell["task"], cell["protocol"]) == (task, protocol))
        rows: dict[str, int] = cell["test_rows"]
        return rows[test] if cell["domain"] is None else sum(rows.values())


def collect(cells: Iterable[dict[str, Any]]) -> Results:
    cells = list(cells)
    check_comparable(cells)
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
        ways = {way for matrix in by_method.values() for way in matrix}  # (training, test) domain
        for name, of_name in (
            (IN_DOMAIN, [way for way in ways if way[0] == way[1]]),
            (OUT_OF_DOMAIN, [way for way in ways if way[0] != way[1]]),
        ):
            for method, matrix in by_method.items():
                # A mean over fewer domains than another method's would not be of the same thing.
                if found := _mean_scores([matrix.get(way, {}) for way in of_name]):
                    scores[task, protocol, name][method] = found
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
