"""One sentence per task: what helps on this data, and whether one can know."""

from __future__ import annotations

from linda.benchmark.results import VANILLA, Results
from linda.benchmark.statistics import Difference


def advise(results: Results) -> list[str]:
    return [_sentence(results, task) for task in dict.fromkeys(column[0] for column in results.columns)]


def _sentence(results: Results, task: str) -> str:
    columns = [column for column in results.columns if column[0] == task]
    protocols = ", ".join(dict.fromkeys(protocol for _, protocol, _ in columns))
    start = f"On {task} ({protocols})"
    gains = {
        method: gain
        for method in results.methods
        if method != VANILLA and (gain := results.gain_over(columns, method)) is not None
    }
    if not gains:
        return f"{start}: nothing to compare; run vanilla and at least one other method."
    if all(gain.margin is None for gain in gains.values()):
        return f"{start}: one seed cannot tell a gain from chance; use --seeds 5."
    helpful = sorted((m for m, gain in gains.items() if gain.is_clear and gain.mean > 0), key=lambda m: -gains[m].mean)
    harmful = sorted((m for m, gain in gains.items() if gain.is_clear and gain.mean < 0), key=lambda m: gains[m].mean)
    noise = [method for method in gains if method not in helpful + harmful]
    parts = []
    if helpful:
        parts.append(" and ".join(f"{m} gains {_points(gains[m])}" for m in helpful) + " over vanilla")
    else:
        parts.append("nothing helps beyond noise, so do not augment")
    if harmful:
        parts.append(" and ".join(f"{m} loses {_points(gains[m])}" for m in harmful))
    if noise:
        rest = "the others" if helpful or harmful else ", ".join(f"{m} {gains[m].mean:+.1f}" for m in noise)
        parts.append(f"{rest} {'is' if rest != 'the others' and len(noise) == 1 else 'are'} within noise")
    return f"{start}: {'; '.join(parts)}."


def _points(gain: Difference) -> str:
    return f"{abs(gain.mean):.1f} ± {gain.margin:.1f} points"
