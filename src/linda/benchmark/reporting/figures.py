"""Plots of the tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib

from linda.benchmark.reporting.results import Results
from linda.files.textio import atomic_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INCHES_PER_COLUMN, _HEIGHT = 1.5, 4.0


def draw_figures(results: Results, output: Path) -> list[str]:
    """Draw the scores of all methods, and the gains over the baseline with their confidence intervals."""
    drawing = {f"{results.metric.name.replace(':', '-')}.png": _scores}
    if results.compared:
        drawing["gain.png"] = _gain
    for name, draw in drawing.items():
        figure, axes = _sheet(len(results.columns))
        draw(results, axes)
        _finish(results, figure, axes)
        with atomic_path(output / name) as part:
            figure.savefig(part, format="png", dpi=150)
    return list(drawing)


def _sheet(columns: int) -> tuple[Figure, Axes]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(6.0, _INCHES_PER_COLUMN * columns + 2), _HEIGHT), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots()


def _scores(results: Results, axes: Axes) -> None:
    for number, method in enumerate(results.methods):
        found = {x: s for x, column in enumerate(results.columns) if (s := results.summary(column, method))}
        points = [(x + _offset(number, len(results.methods)), s.mean, s.std or 0.0) for x, s in found.items()]
        _draw_method(axes, points, number, method)
    unit = "percent" if results.metric.is_percentage else results.metric.unit
    axes.set_ylabel(f"{results.metric.name} in {unit}, ± standard deviation")


def _gain(results: Results, axes: Axes) -> None:
    methods = results.compared
    axes.axhline(0, color="black", linewidth=0.8)
    for number, method in enumerate(methods):
        found = {x: g for x, column in enumerate(results.columns) if (g := results.gain(column, method))}
        points = [(x + _offset(number, len(methods)), g.mean, g.margin or 0.0) for x, g in found.items()]
        _draw_method(axes, points, number + 1, method)
    axes.set_ylabel(f"{results.metric.unit} over {results.baseline}, 95 % interval")


def _draw_method(axes: Axes, points: list[tuple[float, float, float]], number: int, method: str) -> None:
    """Draw points (place, value, half the length of the error bar). When colours repeat, the marker changes."""
    xs, values, errors = zip(*points, strict=True) if points else ((), (), ())
    marker = _MARKERS[number // len(_COLOURS) % len(_MARKERS)]
    colour = _COLOURS[number % len(_COLOURS)]
    axes.errorbar(xs, values, yerr=errors, fmt=marker, capsize=3, color=colour, label=method)


def _finish(results: Results, figure: Figure, axes: Axes) -> None:
    names = [
        f"{task}\n{protocol}" + ("" if test == "test" else f"\n{test}") for task, protocol, test in results.columns
    ]
    axes.set_xticks(range(len(names)), names, fontsize=8)
    axes.grid(axis="y", alpha=0.3)
    figure.legend(loc="outside right upper", fontsize=8)


def _offset(number: int, count: int) -> float:
    """Place methods side by side within their column."""
    return 0.6 * ((number + 0.5) / count - 0.5)


_COLOURS: tuple[tuple[float, ...], ...] = matplotlib.colormaps["tab10"].colors  # type: ignore[attr-defined]
_MARKERS = "os^Dv"
