"""Means over seeds, and differences between methods that are paired by seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean, stdev

# Two-sided 95 % points of Student's t for 1, 2 … degrees of freedom; beyond them the last is near enough.
_T95 = [
    float(point)
    for point in """12.706 4.303 3.182 2.776 2.571 2.447 2.365 2.306 2.262 2.228
                    2.201 2.179 2.160 2.145 2.131 2.120 2.110 2.101 2.093 2.086
                    2.080 2.074 2.069 2.064 2.060 2.056 2.052 2.048 2.045 2.042""".split()  # noqa: SIM905
]


@dataclass(frozen=True)
class Summary:
    mean: float
    std: float | None  # None for a single seed
    count: int


@dataclass(frozen=True)
class Difference:
    """Of a method to vanilla, in points, with its 95 % confidence interval; None where one seed gives none."""

    mean: float
    margin: float | None
    count: int

    @property
    def is_clear(self) -> bool:
        """Beyond noise. Seeds that agree to the last row (of few test rows) show no spread, and so no certainty."""
        return self.margin is not None and 0 < self.margin < abs(self.mean)


def summary(scores: Mapping[int, float]) -> Summary:
    """Of the accuracies by seed."""
    values = list(scores.values())
    return Summary(mean(values), stdev(values) if len(values) > 1 else None, len(values))


def paired_difference(scores: Mapping[int, float], vanilla: Mapping[int, float]) -> Difference | None:
    """Over the seeds that both have; None where there are none."""
    seeds = sorted(set(scores) & set(vanilla))
    if not seeds:
        return None
    differences = [scores[seed] - vanilla[seed] for seed in seeds]
    if len(seeds) == 1:
        return Difference(differences[0], None, 1)
    t = _T95[min(len(seeds) - 1, len(_T95)) - 1]
    return Difference(mean(differences), t * stdev(differences) / len(seeds) ** 0.5, len(seeds))
