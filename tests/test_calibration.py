import pytest

from linda.calibration import RAW, calibrated
from linda.errors import LindaError

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
    assert [calibrated(step / 10, RAW) for step in range(11)] == pytest.approx(
        [step / 10 for step in range(11)]
    )


@pytest.mark.parametrize("alpha", [-0.1, 1.01, float("nan")])
def test_a_ratio_outside_0_to_1_is_an_error_that_names_it(alpha):
    with pytest.raises(LindaError, match=str(alpha)):
        calibrated(alpha, RAW)
