"""The report of a folder of cells: `report.md`, `results.csv`, `cells.csv` and figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from linda.benchmark.cells import read_cells
from linda.benchmark.grid import CELLS, COMMANDS
from linda.benchmark.recipes import VANILLA
from linda.benchmark.reporting.advice import advise
from linda.benchmark.reporting.csv_files import write_cells, write_results
from linda.benchmark.reporting.paper import differences
from linda.benchmark.reporting.results import Results, check_shown, collect, main_metric
from linda.benchmark.reporting.tables import (
    column_name,
    domain_tables,
    gain_table,
    metric_tables,
    overview_table,
    paper_table,
    score_table,
)
from linda.errors import LindaError
from linda.files.textio import atomic_writer


def write_report(output: Path, metric: str | None = None, baseline: str = VANILLA) -> str:
    """Write all files that are computed from the cells of a folder.

    Args:
        output: The folder.
        metric: The metric for ranking and advice; None: accuracy, or average precision if rows have several labels. All
            other metrics are shown too.
        baseline: The method that others are compared with.

    Returns:
        The text of `report.md`.
    """
    cells = list(read_cells(output / CELLS))
    if not cells:
        raise LindaError(f"there are no results in {output}; name tasks (--tasks, --paper) or files (--train, --test)")
    results = collect(cells, metric or main_metric(cells), baseline)
    check_shown(results)
    by_metric = {name: results.of(name) for name in results.metrics}
    commands = output / COMMANDS
    figures = _write_figures(results, output)
    listed = commands.read_text(encoding="utf-8").splitlines() if commands.exists() else []
    report = _report(results, by_metric, figures, listed)
    with atomic_writer(output / "report.md") as file:
        file.write(report)
    with atomic_writer(output / "results.csv") as file:
        write_results(by_metric, file)
    with atomic_writer(output / "cells.csv") as file:
        write_cells(results, file)
    return report


def _write_figures(results: Results, output: Path) -> list[str]:
    try:
        from linda.benchmark.reporting.figures import draw_figures
    except ImportError:  # the extra `plot` is not installed
        return []
    return draw_figures(results, output)


def _report(results: Results, by_metric: dict[str, Results], figures: Sequence[str], commands: Sequence[str]) -> str:
    seeds = results.all_seeds
    metric = results.metric
    named = "Accuracy" if metric.name == "accuracy" else metric.name
    unit = "percent" if metric.is_percentage else metric.unit
    better = ", lower is better" if metric.lower_is_better else ""
    parts = ["# Does augmentation help?", "\n".join(f"- {line}" for line in advise(results))]
    parts += [
        f"## {named} in {unit}{better}: mean ± standard deviation over {seeds} seed{'s' * (seeds > 1)}",
        score_table(results),
    ]
    if results.compared:
        parts += [
            f"## Gain over {results.baseline} in {metric.unit}, paired by seed, with its 95 % confidence interval",
            gain_table(results),
            overview_table(results),
            "The last row of the first table and the last column of the second are the smallest true difference that "
            "this many seeds would have found with a probability of 80 % (of the method that varies most).",
        ]
    if (reported := paper_table(results)) is not None:
        parts += [
            "## The paper's own scores: BERT-base, equal epochs; its LINDA under the method of the same policy",
            reported,
        ]
        if differing := differences(results.cells):
            parts.append("Ours differ from them in:\n\n" + "\n".join(f"- {line}" for line in differing))
    for task, protocol in results.matrices:
        parts.append(f"## {task} {protocol}: trained on the domain of the column, tested on that of the row")
        parts += domain_tables(results, task, protocol)
    parts += [f"![{name}]({name})" for name in figures] or ["No figures: install `linda[plot]` and report again."]
    if len(by_metric) > 1:
        for column in results.columns:
            parts += [f"## All metrics: {column_name(column)}", *metric_tables(by_metric, column)]
        parts.append(_explanation(by_metric))
    parts.append("## How it was computed\n\n" + "\n".join(f"- {line}" for line in _conditions(results, commands)))
    return "\n\n".join(parts) + "\n"


def _explanation(by_metric: dict[str, Results]) -> str:
    lower = ", ".join(name for name, results in by_metric.items() if results.metric.lower_is_better)
    text = f"In percent, except the log loss (nats). Lower is better for {lower}."
    if any(name.endswith("_tuned") for name in by_metric):
        text += " `_tuned`: with the threshold (or offset of each class) that was best on folds of the training rows."
    return text


# --- conditions -------------------------------------------------------------------------------------------------


def _conditions(results: Results, commands: Sequence[str]) -> list[str]:
    """List what a reader needs to judge and reproduce the tables."""
    dates = sorted({cell["date"] for cell in results.cells})
    machines = sorted({cell["machine"] for cell in results.cells})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    lines = [f"{when}, {' and '.join(machines)}, {_hours(results)} of computation"]
    lines += [f"command: `{command}`" for command in commands]
    names = dict.fromkeys(name for cell in results.cells for name in cell["settings"])
    for name in names:
        values = {str(cell["settings"][name]) for cell in results.cells if cell["settings"].get(name) is not None}
        if values:
            lines.append(f"{name.replace('_', ' ')}: {', '.join(sorted(values))}")
    policies = {cell["method"]: cell["policy"] for cell in results.cells if cell["policy"]}
    for method in results.methods:
        if method in policies:
            lines.append(f"{method}: " + ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in policies[method].items()))
    lines.append("updates: " + ", ".join(sorted(_updates(results))))
    if results.is_validation:
        lines.append(
            "tested on a part of the training rows that is not trained on: for choosing settings, not a result"
        )
    if versions := sorted({cell["version"] for cell in results.cells if "version" in cell}):
        lines.append(f"linda {' and '.join(versions)}")
    lines += sorted({note for cell in results.cells for note in cell["notes"]})
    return lines


def _updates(results: Results) -> set[str]:
    found: dict[str, set[int]] = {}
    for cell in results.cells:
        found.setdefault(f"{cell['task']} {cell['protocol']}", set()).add(cell["updates"])
    return {
        f"{name}: {min(counts)}" + (f" to {max(counts)}" if len(counts) > 1 else "") for name, counts in found.items()
    }


def _hours(results: Results) -> str:
    seconds = sum(sum(cell["seconds"].values()) for cell in results.cells)
    return f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds / 60:.0f} minutes"
