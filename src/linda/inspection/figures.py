"""The curves of an inspection as PNG files. Needs the extra `linda[plot]`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linda.errors import LindaError
from linda.files.textio import atomic_path
from linda.inspection.report import Inspection

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FIRST, _SECOND, _REFERENCE = "tab:blue", "tab:orange", "tab:gray"


def require_matplotlib() -> None:
    """Says at the start of a long run that its figures cannot be drawn, not at the end."""
    if find_spec("matplotlib") is None:
        raise LindaError("figures need matplotlib: pip install 'linda[plot]', or pass --no-figures")


def draw_figures(inspection: Inspection, folder: Path) -> None:
    _save(folder / "precision.png", _draw_precision, inspection)
    _save(folder / "share.png", _draw_share, inspection)
    _save(folder / "conditions.png", _draw_conditions, inspection)
    if inspection.fluency is not None:
        _save(folder / "perplexity.png", _draw_perplexity, inspection)


def _draw_precision(axes: Axes, inspection: Inspection) -> None:
    """Figure 2 of the paper."""
    paths = [("", "-", inspection.calibrated)]
    if inspection.raw is not None:
        paths.append((" (raw)", ":", inspection.raw))
    for name, style, points in paths:
        alphas = [point.alpha for point in points]
        axes.plot(alphas, [p.precision_a for p in points], style, color=_FIRST, marker=".", label=f"against a{name}")
        axes.plot(alphas, [p.precision_b for p in points], style, color=_SECOND, marker=".", label=f"against b{name}")
    axes.set(xlabel="α asked for (share of a)", ylabel="unigram precision", ylim=(0, 1.02))


def _draw_share(axes: Axes, inspection: Inspection) -> None:
    axes.plot([0, 1], [0, 1], "--", color=_REFERENCE, label="straight")
    calibrated = inspection.calibrated
    axes.plot([p.alpha for p in calibrated], [p.share_of_a for p in calibrated], marker=".", label="calibrated")
    if inspection.raw is not None:
        axes.plot(
            [p.alpha for p in inspection.raw], [p.share_of_a for p in inspection.raw], ":", marker=".", label="raw"
        )
    axes.set(xlabel="α asked for", ylabel="measured share of a", ylim=(-0.02, 1.02))


def _draw_conditions(axes: Axes, inspection: Inspection) -> None:
    points = inspection.conditions
    alphas = [point.alpha for point in points]
    axes.plot(alphas, [p.log_p_a for p in points], color=_FIRST, marker=".", label="log p(a)")
    axes.plot(alphas, [p.log_p_b for p in points], color=_SECOND, marker=".", label="log p(b)")
    axes.set(xlabel="α mixed (raw ratio)", ylabel="log-likelihood per token, nats")


def _draw_perplexity(axes: Axes, inspection: Inspection) -> None:
    assert inspection.fluency is not None
    sets = {
        "real sentences": inspection.fluency.real,
        "outputs at α=0.5": inspection.fluency.outputs,
        "word-level mixes": inspection.fluency.word_mix,
        "shuffled words": inspection.fluency.shuffled,
    }
    for name, perplexity in sets.items():
        colour = _FIRST if name.startswith("outputs") else _REFERENCE
        axes.bar_label(axes.bar(name, perplexity.per_token, color=colour), fmt="%.0f")
    axes.set(yscale="log", ylabel="perplexity per token")


def _save(path: Path, draw: Any, inspection: Inspection) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    draw(axes, inspection)
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    with atomic_path(path) as part:
        figure.savefig(part, format="png", dpi=150)
