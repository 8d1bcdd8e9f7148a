"""Markdown tables of results."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from linda.benchmark.reporting.paper import PAPER_SCORES, Column
from linda.benchmark.reporting.results import TIE, Results
from linda.evaluation.metrics import Metric
from linda.evaluation.statistics import Difference, ScoreSummary, summarize

DETECTABLE = "detectable at 80 % power"

ShowCell = Callable[[Results, Column, str], str]


def score_table(results: Results) -> str:
    """Show mean ± standard deviation of each method, the best in bold, and the number of test rows."""
    rows_tested = ["rows tested", *(f"{results.rows_tested(column):,}" for column in results.columns)]
    return _by_column(results, _score_cell, results.methods) + "\n" + _line(rows_tested)


def gain_table(results: Results) -> str:
    """Show gains over the baseline with confidence intervals, in bold beyond noise, and detectable differences."""
    return (
        _by_column(results, _gain_cell, results.compared)
        + "\n"
        + _line([DETECTABLE, *(_detectable(results, column) for column in results.columns)])
    )


def overview_table(results: Results) -> str:
    """Show one row per method over all its columns, the best mean gain first."""
    lines = []
    total = len(results.columns)
    for method in results.compared:
        gains = results.gains(results.columns, method)
        overall = results.gain_over(gains, method)
        if overall is None:
            continue
        best = sum(results.best(column) == {method} for column in results.columns)
        above = sum(results.improvement(gain) >= TIE for gain in gains.values())
        detectable = "" if overall.detectable is None else results.metric.shown(overall.detectable)
        shown = _gain(results.metric, overall) + _fewer_seeds(overall.count, results)
        line = [method, shown, f"{above} of {len(gains)}", f"{best} of {total}", detectable]
        lines.append((results.improvement(overall), line))
    ranked = [line for _, line in sorted(lines, key=lambda item: -item[0])]
    better = "below" if results.metric.lower_is_better else "above"
    return _markdown([["method", "mean gain", f"{better} {results.baseline} in", "best in", DETECTABLE], *ranked])


def paper_table(results: Results) -> str | None:
    """Show the paper's scores in these columns; None if there are none."""
    methods = dict.fromkeys(
        method
        for column, method in PAPER_SCORES
        if column in results.scores and results.paper(column, method) is not None
    )
    return _by_column(results, _paper_cell, list(methods)) if methods else None


def domain_tables(results: Results, task: str, protocol: str) -> list[str]:
    """Show one table per method: trained on the domain of the column, tested on that of the row (Appendix D)."""
    tables = []
    by_method = results.matrices[task, protocol]
    for method in (method for method in results.methods if method in by_method):
        matrix = by_method[method]
        trained, tested = sorted({key[0] for key in matrix}), sorted({key[1] for key in matrix})
        lines = [[method, *trained]]
        for test in tested:
            cells = [matrix.get((domain, test)) for domain in trained]
            lines.append([test, *(_score(results.metric, summarize(scores)) if scores else "" for scores in cells)])
        tables.append(_markdown(lines))
    return tables


def metric_tables(by_metric: dict[str, Results], column: Column) -> list[str]:
    """Show all metrics of one column: scores, then gains over the baseline."""
    there = {name: results for name, results in by_metric.items() if results.scores.get(column)}
    methods = list(dict.fromkeys(method for results in there.values() for method in results.methods))
    shown = [method for method in methods if any(r.summary(column, method) for r in there.values())]
    header = ["method", *there]
    tables = [_markdown([header, *([m, *(_score_cell(r, column, m) for r in there.values())] for m in shown)])]
    compared = [m for m in shown if any(r.gain(column, m) and m in r.compared for r in there.values())]
    if compared:
        lines = [[m, *(_gain_cell(r, column, m) for r in there.values())] for m in compared]
        last = [DETECTABLE, *(_detectable(r, column) for r in there.values())]
        baseline = next(iter(there.values())).baseline
        tables.append(_markdown([[f"minus {baseline}", *there], *lines, last]))
    return tables


def column_name(column: Column) -> str:
    task, protocol, test = column
    return f"{task} {protocol}" if test == "test" else f"{task} {protocol}, {test}"


# --- cells ------------------------------------------------------------------------------------------------------


def _score_cell(results: Results, column: Column, method: str) -> str:
    found = results.summary(column, method)
    if found is None:
        return ""
    text = _score(results.metric, found)
    text = f"**{text}**" if method in results.best(column) else text
    return text + _fewer_seeds(found.count, results)


def _fewer_seeds(count: int, results: Results) -> str:
    """Note a number of seeds that differs from the heading."""
    return f" ({count} seed{'s' * (count > 1)})" if count < results.all_seeds else ""


def _score(metric: Metric, found: ScoreSummary) -> str:
    return metric.shown(found.mean) if found.std is None else f"{metric.shown(found.mean)} ± {metric.shown(found.std)}"


def _gain_cell(results: Results, column: Column, method: str) -> str:
    gain = results.gain(column, method)
    return "" if gain is None else _gain(results.metric, gain)


def _gain(metric: Metric, gain: Difference) -> str:
    if gain.margin is None:
        return metric.shown(gain.mean, sign=True)
    text = f"{metric.shown(gain.mean, sign=True)} ± {metric.shown(gain.margin)}"
    return f"**{text}**" if gain.is_clear else text


def _detectable(results: Results, column: Column) -> str:
    found = results.detectable(column)
    return "" if found is None else results.metric.shown(found)


def _paper_cell(results: Results, column: Column, method: str) -> str:
    score = results.paper(column, method)
    return "" if score is None else f"{score[0]:.1f} ± {score[1]:.1f}"


# --- Markdown ---------------------------------------------------------------------------------------------------


def _by_column(results: Results, cell: ShowCell, methods: Sequence[str]) -> str:
    header = ["method", *map(column_name, results.columns)]
    lines = [[method, *(cell(results, column, method) for column in results.columns)] for method in methods]
    return _markdown([header, *lines])


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    header, *body = lines
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(map(_line, (header, rule, *body)))


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
