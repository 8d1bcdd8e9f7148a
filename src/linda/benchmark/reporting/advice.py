"""One sentence per task: what helps on this data, and whether that is certain."""

from __future__ import annotations

from linda.benchmark.reporting.paper import Column
from linda.benchmark.reporting.results import Results
from linda.evaluation.statistics import Difference


def advise(results: Results) -> list[str]:
    """Write one sentence per task."""
    return [_sentence(results, task) for task in dict.fromkeys(column[0] for column in results.columns)]


def _sentence(results: Results, task: str) -> str:
    columns = [column for column in results.columns if column[0] == task]
    start = f"On {task} ({_protocols(columns)})"
    gains, names = {}, {}
    for method in results.compared:
        shared = list(results.gains(columns, method))
        if (gain := results.gain_over(shared, method)) is not None:
            gains[method] = gain
            names[method] = method if len(shared) == len(columns) else f"{method} ({_protocols(shared)})"
    if not gains:
        return f"{start}: nothing to compare; run {results.baseline} and at least one other method."
    unknown = [method for method, gain in gains.items() if gain.margin is None]
    if len(unknown) == len(gains):
        return f"{start}: one seed is too few to distinguish a gain from chance; use --seeds 5."
    better = {method: results.improvement(gain) for method, gain in gains.items()}
    helpful = sorted((m for m, gain in gains.items() if gain.is_clear and better[m] > 0), key=lambda m: -better[m])
    harmful = sorted((m for m, gain in gains.items() if gain.is_clear and better[m] < 0), key=lambda m: better[m])
    noise = [method for method in gains if method not in helpful + harmful + unknown]
    parts = []
    if helpful:
        listed = " and ".join(f"{names[m]} {_change(results, gains[m])}" for m in helpful)
        parts.append(f"{listed} over {results.baseline}")
    else:
        parts.append("nothing helps beyond noise, so do not augment")
    if harmful:
        parts.append(" and ".join(f"{names[m]} {_change(results, gains[m])}" for m in harmful))
    if noise:
        is_rest = bool(helpful or harmful) and not unknown
        shown = (f"{names[m]} {results.metric.shown(gains[m].mean, sign=True)}" for m in noise)
        listed = "the others" if is_rest else ", ".join(shown)
        parts.append(f"{listed} {'is' if not is_rest and len(noise) == 1 else 'are'} within noise")
    if unknown:
        listed = ", ".join(names[m] for m in unknown)
        parts.append(f"one seed of {listed} is too few to distinguish a gain from chance")
    return f"{start}: {'; '.join(parts)}."


def _protocols(columns: list[Column]) -> str:
    return ", ".join(dict.fromkeys(protocol for _, protocol, _ in columns))


def _change(results: Results, gain: Difference) -> str:
    """`gains 2.0 ± 0.2 points`, `lowers log_loss by 0.213 ± 0.020 nats`."""
    metric = results.metric
    assert gain.margin is not None
    amount = f"{metric.shown(abs(gain.mean))} ± {metric.shown(gain.margin)} {metric.unit}"
    if metric.lower_is_better:
        return f"{'lowers' if gain.mean < 0 else 'raises'} {metric.name} by {amount}"
    of_metric = "" if metric.name == "accuracy" else f" of {metric.name}"
    return f"{'gains' if gain.mean > 0 else 'loses'} {amount}{of_metric}"
