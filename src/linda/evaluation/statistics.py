"""Means over seeds, and differences between methods that are paired by seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from statistics import mean, stdev

POWER = 0.8
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class ScoreSummary:
    mean: float
    std: float | None  # None for a single seed
    count: int


@dataclass(frozen=True)
class Difference:
    """A method minus its baseline, paired by seed. With one seed, margin and detectable are None.

    Attributes:
        margin: Half of the 95 % confidence interval (Student's t).
        detectable: The smallest true difference that this many seeds would have found with a probability of 80 %.
    """

    mean: float
    margin: float | None
    count: int
    detectable: float | None = None

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes zero. A margin of 0 (few test rows, all seeds agree) proves nothing."""
        return self.margin is not None and 0 < self.margin < abs(self.mean)


def summarize(scores: Mapping[int, float]) -> ScoreSummary:
    """Mean and standard deviation of scores by seed."""
    values = list(scores.values())
    return ScoreSummary(mean(values), stdev(values) if len(values) > 1 else None, len(values))


def paired_difference(scores: Mapping[int, float], baseline: Mapping[int, float]) -> Difference | None:
    """Compare two methods over the seeds that both have; None if there are none."""
    seeds = sorted(set(scores) & set(baseline))
    if not seeds:
        return None
    differences = [scores[seed] - baseline[seed] for seed in seeds]
    count = len(seeds)
    if count == 1:
        return Difference(differences[0], None, 1)
    error = stdev(differences) / count**0.5
    return Difference(mean(differences), _critical_value(count) * error, count, _detectable_errors(count) * error)


@lru_cache
def _critical_value(count: int) -> float:
    from scipy.stats import t

    return float(t.ppf((1 + _CONFIDENCE) / 2, count - 1))


@lru_cache
def _detectable_errors(count: int) -> float:
    """The smallest difference, in standard errors, that the t test detects with the required power."""
    from scipy.optimize import brentq
    from scipy.stats import nct

    critical = _critical_value(count)
    return float(brentq(lambda shift: nct.sf(critical, count - 1, shift) - POWER, 0, 2 * critical + 5))
