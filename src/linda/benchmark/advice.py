"""One sentence per task: what helps on this data, and whether one can know."""

from __future__ import annotations

from linda.benchmark.paper import Column
from linda.benchmark.results import VANILLA, Results
from linda.benchmark.statistics import Difference


def advise(results: Results) -> list[str]:
    return [_sentence(results, task) for task in dict.fromkeys(column[0] for column in results.columns)]


def _sentence(results: Results, task: str) -> str:
    columns = [column for column in results.columns if column[0] == task]
    start = f"On {task} ({_protocols(columns)})"
    gains, names = {}, {}
    for method in results.methods:
        shared = list(results.gains(columns, method))
        if method != VANILLA and (gain := results.gain_over(shared, method)) is not None:
            gains[method] = gain
            names[method] = method if len(shared) == len(columns) else f"{method} ({_protocols(shared)})"
    if not gains:
        return f"{start}: nothing to compare; run vanilla and at least one other method."
    unknown = [method for method, gain in gains.items() if gain.margin is None]
    if len(unknown) == len(gains):
        return f"{start}: one seed cannot tell a gain from chance; use --seeds 5."
    helpful = sorted((m for m, gain in gains.items() if gain.is_clear and gain.mean > 0), key=lambda m: -gains[m].mean)
    harmful = sorted((m for m, gain in gains.items() if gain.is_clear and gain.mean < 0), key=lambda m: gains[m].mean)
    noise = [method for method in gains if method not in helpful + harmful + unknown]
    parts = []
    if helpful:
        parts.append(" and ".join(f"{names[m]} gains {_points(gains[m])}" for m in helpful) + " over vanilla")
    else:
        parts.append("nothing helps beyond noise, so do not augment")
    if harmful:
        parts.append(" and ".join(f"{names[m]} loses {_points(gains[m])}" for m in harmful))
    if noise:
        is_rest = bool(helpful or harmful) and not unknown
        listed = "the others" if is_rest else ", ".join(f"{names[m]} {gains[m].mean:+.1f}" for m in noise)
        parts.append(f"{listed} {'is' if not is_rest and len(noise) == 1 else 'are'} within noise")
    if unknown:
        parts.append(f"one seed of {', '.join(names[m] for m in unknown)} cannot tell a gain from chance")
    return f"{start}: {'; '.join(parts)}."


def _protocols(columns: list[Column]) -> str:
    return ", ".join(dict.fromkeys(protocol for _, protocol, _ in columns))


def _points(gain: Difference) -> str:
    return f"{abs(gain.mean):.1f} ± {gain.margin:.1f} points"
