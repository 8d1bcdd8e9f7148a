import math
from itertools import pairwise

import pytest

from linda.errors import LindaError
from linda.interpolation.calibration import (
    RAW,
    calibrated,
    fit_calibration,
    knots_from_shares,
    measure_shares,
    monotone_fit,
    symmetric,
)

KNOTS = [(0.0, 0.0), (0.02, 0.4), (0.5, 0.5), (0.9, 0.58), (1.0, 1.0)]


def test_calibrated_is_exact_at_the_ends_and_at_the_knots():
    assert [calibrated(asked, KNOTS) for asked, _ in KNOTS] == [mixed for _, mixed in KNOTS]
    assert calibrated(0, KNOTS) == 0.0
    assert calibrated(1, KNOTS) == 1.0


def test_calibrated_is_linear_between_knots():
    assert calibrated(0.7, KNOTS) == pytest.approx(0.54)


def test_calibrated_never_falls():
    mixed = [calibrated(step / 1000, KNOTS) for step in range(1001)]
    assert mixed == sorted(mixed)


def test_raw_knots_change_nothing():
    assert [calibrated(step / 10, RAW) for step in range(11)] == pytest.approx([step / 10 for step in range(11)])


@pytest.mark.parametrize("alpha", [-0.1, 1.01, float("nan")])
def test_a_ratio_outside_0_to_1_is_an_error_that_names_it(alpha):
    with pytest.raises(LindaError, match=str(alpha)):
        calibrated(alpha, RAW)


def narrow_passage(ratio):
    """The share of a of a trained model: it copies outside 0.42…0.58, and changes quickly inside."""
    return 1 / (1 + math.exp(-(ratio - 0.48) * 60))


def test_ratios_gather_where_the_share_changes():
    shares = measure_shares(lambda ratios: [narrow_passage(ratio) for ratio in ratios])
    assert len(shares) <= 24
    by_ratio = sorted(shares)
    steps = [shares[right] - shares[left] for left, right in pairwise(by_ratio)]
    assert max(steps) <= 0.08
    assert sum(0.4 < ratio < 0.6 for ratio in by_ratio) > len(by_ratio) / 2


def test_calibration_straightens_a_narrow_passage():
    knots = knots_from_shares(measure_shares(lambda ratios: [narrow_passage(ratio) for ratio in ratios]))
    for step in range(1, 10):
        assert narrow_passage(calibrated(step / 10, knots)) == pytest.approx(step / 10, abs=0.01)


def test_a_jump_ends_the_search():
    calls = []

    def measure(ratios):
        calls.append(ratios)
        return [float(ratio > 0.3) for ratio in ratios]

    knots = knots_from_shares(measure_shares(measure))
    assert len(calls) < 12
    assert calibrated(0.5, knots) == pytest.approx(0.3, abs=0.005)


def test_knots_are_exact_at_the_ends_and_rise_strictly():
    noisy = {0.0: 0.0, 0.2: 0.0, 0.4: 0.002, 0.5: 0.6, 0.55: 0.5, 0.6: 1.0, 0.8: 0.999, 1.0: 1.0}
    knots = knots_from_shares(noisy)
    # 0.6 and 0.8 fall, so they share a mean of 0.9995: the copying of a begins at 0.6.
    assert knots == [(0, 0), (0.005, 0.4), (0.55, pytest.approx(0.525)), (0.995, 0.6), (1, 1)]


def test_a_straight_model_is_left_as_it_is():
    knots = knots_from_shares(measure_shares(list))
    assert [calibrated(step / 10, knots) for step in range(11)] == pytest.approx([step / 10 for step in range(11)])


def test_monotone_fit_averages_neighbours_that_fall():
    fit = monotone_fit({0.0: 0.0, 0.2: 0.5, 0.4: 0.3, 0.6: 0.1, 0.8: 0.9, 1.0: 1.0})
    assert fit == [(0.0, 0.0), (0.2, 0.3), (0.4, 0.3), (0.6, 0.3), (0.8, 0.9), (1.0, 1.0)]


class WordMixer:
    """A fake interpolator: takes the first words of a and the last of b, with a narrow transition."""

    def mix(self, a, b, alpha, *, raw, copies, progress):
        assert (raw, copies) == (True, False)
        return [self._mixed(*row) for row in zip(a, b, alpha, strict=True)]

    @staticmethod
    def _mixed(a, b, alpha):
        words_a, words_b = a.split(), b.split()
        cut = round(len(words_a) * min(1, max(0, (alpha - 0.4) / 0.2)))
        return " ".join(words_a[:cut] + words_b[cut:])


def test_fit_calibration_makes_the_share_the_ratio_asked_for():
    pairs = [
        (" ".join(f"a{row}x{i}" for i in range(20)), " ".join(f"b{row}x{i}" for i in range(20))) for row in range(5)
    ]
    knots = fit_calibration(WordMixer(), pairs)
    for step in range(1, 10):
        assert calibrated(step / 10, knots) == pytest.approx(0.4 + 0.2 * step / 10, abs=0.01)


def test_symmetric_treats_both_texts_alike():
    knots = symmetric([(0.0, 0.0), (0.2, 0.4), (0.5, 0.48), (0.9, 0.6), (1.0, 1.0)])
    for asked, mixed in knots:
        assert calibrated(1 - asked, knots) == pytest.approx(1 - mixed)
    assert calibrated(0.5, knots) == pytest.approx(0.5)
    assert knots[0] == (0.0, 0.0)
    assert knots[-1] == (1.0, 1.0)


def test_symmetric_leaves_a_symmetric_map_alone():
    knots = [(0.0, 0.0), (0.25, 0.375), (0.75, 0.625), (1.0, 1.0)]
    assert symmetric(knots) == knots
