"""Figures of an inspection as PNG files. Needs the extra `linda[plot]`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linda.errors import LindaError
from linda.files.textio import atomic_path
from linda.inspection.conditions import ATTENTION, STATES
from linda.inspection.fluency import OUTPUTS
from linda.inspection.references import CROSSOVER, SPLICE
from linda.inspection.report import REFERENCE_TITLES, Inspection

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FIRST, _SECOND, _REFERENCE = "tab:blue", "tab:orange", "tab:gray"


def require_matplotlib() -> None:
    """Raise an error at the start of a long run if its figures cannot be drawn."""
    if find_spec("matplotlib") is None:
        raise LindaError("figures need matplotlib: pip install 'linda[plot]', or give --no-figures")


def draw_inspection(inspection: Inspection, folder: Path) -> None:
    """Draw every figure for which there are measurements."""
    _save(folder / "precision.png", _draw_precision, inspection)
    _save(folder / "share.png", _draw_share, inspection)
    _save(folder / "conditions.png", _draw_conditions, inspection)
    if inspection.fluency is not None:
        _save(folder / "perplexity.png", _draw_perplexity, inspection)
        _save(folder / "faithfulness.png", _draw_faithfulness, inspection)


def _draw_precision(axes: Axes, inspection: Inspection) -> None:
    """Draw figure 2 of the paper."""
    paths = [("", "-", inspection.calibrated)]
    if inspection.raw is not None:
        paths.append((" (raw)", ":", inspection.raw))
    for name, style, path in paths:
        alphas = [point.alpha for point in path.points]
        precision_a, precision_b = ([getattr(p, f"precision_{x}") for p in path.points] for x in "ab")
        axes.plot(alphas, precision_a, style, color=_FIRST, marker=".", label=f"against a{name}")
        axes.plot(alphas, precision_b, style, color=_SECOND, marker=".", label=f"against b{name}")
    axes.set(xlabel="requested α (share of a)", ylabel="unigram precision", ylim=(0, 1.02))


def _draw_share(axes: Axes, inspection: Inspection) -> None:
    axes.plot([0, 1], [0, 1], "--", color=_REFERENCE, label="straight")
    for name, style, path in (("calibrated", "-", inspection.calibrated), ("raw", ":", inspection.raw)):
        if path is not None:
            axes.plot(
                [p.alpha for p in path.points], [p.share_of_a for p in path.points], style, marker=".", label=name
            )
    axes.set(xlabel="requested α", ylabel="measured share of a", ylim=(-0.02, 1.02))


def _draw_conditions(axes: Axes, inspection: Inspection) -> None:
    styles = {STATES: "-", ATTENTION: ":"}
    for mixing, points in inspection.conditions.items():
        style = styles[mixing]
        alphas = [point.alpha for point in points]
        axes.plot(alphas, [p.log_p_a for p in points], style, color=_FIRST, marker=".", label=f"log p(a), {mixing}")
        axes.plot(alphas, [p.log_p_b for p in points], style, color=_SECOND, marker=".", label=f"log p(b), {mixing}")
    axes.set(xlabel="mixed α (raw ratio)", ylabel="log-likelihood per token, nats")


def _draw_perplexity(axes: Axes, inspection: Inspection) -> None:
    """Draw perplexity along the path; references measured only at 0.5 are single points."""
    fluency = inspection.fluency
    assert fluency is not None
    axes.axhline(1, linestyle="--", color=_REFERENCE, label="real sentences")
    for name, title in {OUTPUTS: "outputs", **REFERENCE_TITLES}.items():
        if points := fluency.points.get(name):
            relative = [fluency.relative_to_real(point) for point in points]
            axes.plot([point.alpha for point in points], relative, marker="." if len(points) > 1 else "x", label=title)
    axes.set(yscale="log", xlabel="requested α", ylabel="perplexity relative to real sentences")


def _draw_faithfulness(axes: Axes, inspection: Inspection) -> None:
    """Draw perplexity against faithfulness, one point per ratio, and the references at 0.5. Best is the lower right."""
    fluency = inspection.fluency
    assert fluency is not None
    points = fluency.points[OUTPUTS]
    axes.plot(
        [point.faithfulness for point in points],
        [fluency.relative_to_real(point) for point in points],
        color=_FIRST,
        marker=".",
        linewidth=0.5,
        label="outputs, by α",
    )
    for point in points:
        axes.annotate(
            f"{point.alpha:g}", (point.faithfulness, fluency.relative_to_real(point)), fontsize=7, color=_FIRST
        )
    axes.plot([0], [1], "s", color=_REFERENCE, label="copies (real sentences)")
    markers = {SPLICE: "v", CROSSOVER: "*"}
    for name, title in REFERENCE_TITLES.items():
        if (reference := fluency.at(name, 0.5)) is not None:
            relative = fluency.relative_to_real(reference)
            axes.plot([reference.faithfulness], [relative], markers.get(name, "x"), label=f"{title}, α=0.5")
    axes.set(
        yscale="log",
        xlabel="faithfulness: words found in a or b, of outputs with content words of both",
        ylabel="perplexity relative to real sentences",
        xlim=(-0.03, 1.05),
    )


def _save(path: Path, draw: Any, inspection: Inspection) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    draw(axes, inspection)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    with atomic_path(path) as part:
        figure.savefig(part, format="png", dpi=150)
