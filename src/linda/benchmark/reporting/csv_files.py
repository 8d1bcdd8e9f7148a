"""The numbers of a report as CSV: `results.csv` has the means, `cells.csv` every seed."""

from __future__ import annotations

import csv
from typing import TextIO

from linda.benchmark.reporting.results import Results

_RESULTS = ["task", "protocol", "test", "method", "metric", "seeds", "mean", "std"]
_RESULTS += ["gain", "gain_margin_95", "detectable_80", "paper_mean", "paper_std"]


def write_results(by_metric: dict[str, Results], file: TextIO) -> None:
    """Write one line for each column, method and metric."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_RESULTS)
    for name, results in by_metric.items():
        for column in results.columns:
            for method in results.methods:
                found = results.summary(column, method)
                if found is None:
                    continue
                gain = results.gain(column, method) if method in results.compared else None
                paper = results.paper(column, method) or (None, None)
                difference = (gain.mean, gain.margin, gain.detectable) if gain else (None, None, None)
                row = [found.count, found.mean, found.std, *difference, *paper]
                writer.writerow([*column, method, name, *map(_number, row)])


def write_cells(results: Results, file: TextIO) -> None:
    """Write one line for each seed, with every metric."""
    metrics = results.metrics
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["task", "protocol", "domain", "test", "method", "seed", *metrics, "rows", "new_rows", "updates"])
    for cell in results.cells:
        for test, scores in cell["scores"].items():
            head = [cell["task"], cell["protocol"], cell["domain"] or "", test, cell["method"], cell["seed"]]
            found = [scores.get(metric, "") for metric in metrics]
            writer.writerow([*head, *found, cell["rows"], cell["new_rows"], cell["updates"]])


def _number(value: float | int | None) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.3f}"
