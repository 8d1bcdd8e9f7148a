"""Tables, figures and advice, made from the cells alone: `report.md`, `results.csv` and `*.png`."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from linda.benchmark.advice import advise
from linda.benchmark.cells import read_cells
from linda.benchmark.paper import FIGURES, Column
from linda.benchmark.results import TIE, VANILLA, Results, collect
from linda.benchmark.run import CELLS, COMMANDS
from linda.benchmark.statistics import Difference, Summary, summary
from linda.errors import LindaError
from linda.files.textio import atomic_writer


def write_report(output: Path) -> str:
    """Writes everything that follows from the cells in `output`; returns the report."""
    results = collect(read_cells(output / CELLS))
    if not results.cells:
        raise LindaError(f"there are no results in {output}; name tasks (--tasks, --paper) or files (--train, --test)")
    commands = output / COMMANDS
    figures = _write_figures(results, output)
    report = _report(results, figures, commands.read_text(encoding="utf-8").splitlines() if commands.exists() else [])
    with atomic_writer(output / "report.md") as file:
        file.write(report)
    with atomic_writer(output / "results.csv") as file:
        _write_csv(results, file)
    with atomic_writer(output / "cells.csv") as file:
        _write_cells(results, file)
    return report


def _write_figures(results: Results, output: Path) -> list[str]:
    try:
        from linda.benchmark.figures import draw_figures
    except ImportError:  # the extra `plot` is not installed: tables say it all
        return []
    return draw_figures(results, output)


def _report(results: Results, figures: Sequence[str], commands: Sequence[str]) -> str:
    seeds = results.all_seeds
    parts = ["# Does augmentation help?", "\n".join(f"- {line}" for line in advise(results))]
    parts += [
        f"## Accuracy in percent: mean ± standard deviation over {seeds} seed{'s' * (seeds > 1)}",
        _table(results, _accuracy_cell) + "\n" + _rows_tested(results),
    ]
    if VANILLA in results.methods and len(results.methods) > 1:
        parts += [
            "## Gain over vanilla in points, paired by seed, with its 95 % confidence interval",
            _table(results, _gain_cell, [method for method in results.methods if method != VANILLA]),
            _overview(results),
        ]
    if reported := _paper_methods(results):
        parts += [
            "## The paper's (BERT-base, equal epochs; its linda is `linda-raw`, or another `linda-raw-…`, here)",
            _table(results, _paper_cell, reported),
        ]
    parts += [_matrix(results, *key) for key in results.matrices]
    parts += [f"![{name}]({name})" for name in figures] or ["No figures: `pip install 'linda[plot]'`, and report anew."]
    parts.append("## How it was computed\n\n" + "\n".join(f"- {line}" for line in _conditions(results, commands)))
    return "\n\n".join(parts) + "\n"


# --- tables ---------------------------------------------------------------------------------------------------


def _column_name(column: Column) -> str:
    task, protocol, test = column
    return f"{task} {protocol}" if test == "test" else f"{task} {protocol}, {test}"


def _table(results: Results, cell: Any, methods: Sequence[str] | None = None) -> str:
    header = ["method", *map(_column_name, results.columns)]
    lines = [
        [method, *(cell(results, column, method) for column in results.columns)]
        for method in methods or results.methods
    ]
    return _markdown([header, *lines])


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    header, *body = lines
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(map(_line, (header, rule, *body)))


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _rows_tested(results: Results) -> str:
    """The last line of the table of accuracies: some are of a part of the test set."""
    return _line(["rows tested", *(f"{results.rows_tested(column):,}" for column in results.columns)])


def _accuracy_cell(results: Results, column: Column, method: str) -> str:
    found = results.summary(column, method)
    if found is None:
        return ""
    text = f"**{_shown(found)}**" if method in results.best(column) else _shown(found)
    return text + _fewer_seeds(found.count, results)


def _fewer_seeds(count: int, results: Results) -> str:
    """What the heading says of all, corrected."""
    return f" ({count} seed{'s' * (count > 1)})" if count < results.all_seeds else ""


def _shown(found: Summary) -> str:
    return f"{found.mean:.1f}" if found.std is None else f"{found.mean:.1f} ± {found.std:.1f}"


def _gain_cell(results: Results, column: Column, method: str) -> str:
    gain = results.gain(column, method)
    return "" if gain is None else _shown_gain(gain)


def _shown_gain(gain: Difference) -> str:
    if gain.margin is None:
        return f"{gain.mean:+.1f}"
    text = f"{gain.mean:+.1f} ± {gain.margin:.1f}"
    return f"**{text}**" if gain.is_clear else text


def _paper_cell(results: Results, column: Column, method: str) -> str:
    figure = results.paper(column, method)
    return "" if figure is None else f"{figure[0]:.1f} ± {figure[1]:.1f}"


def _paper_methods(results: Results) -> list[str]:
    """In the order of the paper; none where no column is the paper's."""
    return list(
        dict.fromkeys(
            method
            for column, method in FIGURES
            if column in results.scores and results.paper(column, method) is not None
        )
    )


def _overview(results: Results) -> str:
    """One line per method over all columns it has."""
    lines = [["method", "mean gain", "above vanilla in", "best in"]]
    total = len(results.columns)
    for method in results.methods:
        gains = results.gains(results.columns, method)
        overall = results.gain_over(gains, method)
        if method == VANILLA or overall is None:
            continue
        best = sum(results.best(column) == {method} for column in results.columns)
        above = sum(gain.mean >= TIE for gain in gains.values())
        shown = _shown_gain(overall) + _fewer_seeds(overall.count, results)
        lines.append([method, shown, f"{above} of {len(gains)}", f"{best} of {total}"])
    return _markdown(lines)


def _matrix(results: Results, task: str, protocol: str) -> str:
    """Appendix D: trained on the domain of the column, tested on that of the line."""
    parts = [f"## {task} {protocol}: trained on the column's domain, tested on the line's"]
    by_method = results.matrices[task, protocol]
    for method in (method for method in results.methods if method in by_method):
        matrix = by_method[method]
        trained, tested = sorted({key[0] for key in matrix}), sorted({key[1] for key in matrix})
        lines = [[method, *trained]]
        for test in tested:
            cells = [matrix.get((domain, test)) for domain in trained]
            lines.append([test, *(_shown(summary(scores)) if scores else "" for scores in cells)])
        parts.append(_markdown(lines))
    return "\n\n".join(parts)


def _write_csv(results: Results, file: Any) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(
        [
            "task",
            "protocol",
            "test",
            "method",
            "seeds",
            "mean",
            "std",
            "gain",
            "gain_margin_95",
            "paper_mean",
            "paper_std",
        ]
    )
    for column in results.columns:
        for method in results.methods:
            found = results.summary(column, method)
            if found is None:
                continue
            gain = None if method == VANILLA else results.gain(column, method)
            paper = results.paper(column, method) or (None, None)
            row = [found.count, found.mean, found.std, gain and gain.mean, gain and gain.margin, *paper]
            writer.writerow([*column, method, *(_cell(value) for value in row)])


def _write_cells(results: Results, file: Any) -> None:
    """What every mean is made of: one line for each seed."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["task", "protocol", "domain", "test", "method", "seed", "accuracy", "rows", "new_rows", "updates"])
    for cell in results.cells:
        for test, accuracy in cell["scores"].items():
            head = [cell["task"], cell["protocol"], cell["domain"] or "", test, cell["method"], cell["seed"]]
            writer.writerow([*head, accuracy, cell["rows"], cell["new_rows"], cell["updates"]])


def _cell(value: float | int | None) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.3f}"


# --- conditions -----------------------------------------------------------------------------------------------


def _conditions(results: Results, commands: Sequence[str]) -> list[str]:
    """What a reader needs to know to believe the tables, and to compute them again."""
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
    updates = {f"{column}: {count}" for column, count in _updates(results)}
    lines.append("updates: " + ", ".join(sorted(updates)))
    if results.is_validation:
        lines.append(
            "tested on a part of the training rows that is not trained on: for choosing settings, not a result"
        )
    if versions := sorted({cell["version"] for cell in results.cells if "version" in cell}):
        lines.append(f"linda {' and '.join(versions)}")
    lines += sorted({note for cell in results.cells for note in cell["notes"]})
    return lines


def _updates(results: Results) -> set[tuple[str, str]]:
    found: dict[str, set[int]] = {}
    for cell in results.cells:
        found.setdefault(f"{cell['task']} {cell['protocol']}", set()).add(cell["updates"])
    return {
        (name, str(min(counts)) if len(counts) == 1 else f"{min(counts)} to {max(counts)}")
        for name, counts in found.items()
    }


def _hours(results: Results) -> str:
    seconds = sum(sum(cell["seconds"].values()) for cell in results.cells)
    return f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds / 60:.0f} minutes"
