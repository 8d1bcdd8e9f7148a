"""A plan depends only on labels, options and seed, and determines which rows are mixed."""

from pathlib import Path

import numpy as np
import pytest

from linda.errors import LindaError
from linda.planning.plan import PARTNERS, Plan, PlanRow, Ratio, make_plan

CODES = np.array([0, 0, 0, 1, 1, 2, -1])  # row 5 is the only row of its class, row 6 is skipped


def test_the_same_seed_gives_the_same_plan_and_another_seed_another() -> None:
    assert make_plan(CODES, seed=3) == make_plan(CODES, seed=3)
    assert make_plan(CODES, seed=3) != make_plan(CODES, seed=4)


@pytest.mark.parametrize("ratio", ["uniform", "beta:0.4"])
def test_a_row_does_not_depend_on_how_many_rows_follow(ratio: str) -> None:
    one, three = make_plan(CODES, ratio=ratio), make_plan(CODES, ratio=ratio, per_row=3)
    assert three[: len(one)] == one


def test_a_plan_can_be_made_in_parts() -> None:
    whole = make_plan(np.zeros(10, dtype=int), per_row=2)
    second = make_plan(np.zeros(10, dtype=int), first=10)
    assert whole[10:] == second


def test_every_row_is_served_before_any_is_served_again() -> None:
    plan = make_plan(CODES, per_row=3)
    assert plan.row.tolist() == [0, 1, 2, 3, 4, 5] * 3


def test_total_spreads_what_is_left_over_different_rows() -> None:
    plan = make_plan(CODES, total=9)
    assert plan.row[:6].tolist() == [0, 1, 2, 3, 4, 5]
    assert len(set(plan.row[6:].tolist())) == 3
    assert set(make_plan(CODES, total=2).row.tolist()) < {0, 1, 2, 3, 4, 5}


NEIGHBOURS = np.array([[1, 2], [0, 2], [0, 3], [4, 5], [3, 5], [3, 0], [-1, -1]], dtype=np.int32)


@pytest.mark.parametrize("partners", PARTNERS)
def test_no_row_meets_itself_or_a_row_that_is_left_out(partners: str) -> None:
    plan = make_plan(CODES, partners=partners, per_row=200, neighbours=NEIGHBOURS)
    assert plan.partner.dtype == np.int64
    assert (plan.row != plan.partner).all()
    assert 6 not in plan.partner
    assert 6 not in plan.row


def partners_of(row: int, kind: str, codes: np.ndarray = CODES) -> dict[int, float]:
    plan = make_plan(codes, partners=kind, per_row=3000)
    met = plan.partner[plan.row == row]
    return {int(partner): float((met == partner).mean()) for partner in np.unique(met)}


def test_any_partner_is_as_likely_as_any_other() -> None:
    shares = partners_of(0, "any")
    assert set(shares) == {1, 2, 3, 4, 5}
    assert all(share == pytest.approx(1 / 5, abs=0.03) for share in shares.values())


def test_partners_of_the_same_label() -> None:
    assert set(partners_of(0, "same")) == {1, 2}
    assert set(partners_of(3, "same")) == {4}
    assert 5 not in make_plan(CODES, partners="same").row  # it has no partner


def test_partners_of_a_different_label() -> None:
    assert set(partners_of(0, "different")) == {3, 4, 5}
    assert set(partners_of(3, "different")) == {0, 1, 2, 5}


def test_stratified_partners_come_from_every_class_alike() -> None:
    shares = partners_of(0, "stratified")
    assert shares[5] == pytest.approx(1 / 3, abs=0.03)
    assert shares[3] + shares[4] == pytest.approx(1 / 3, abs=0.03)
    lonely = partners_of(5, "stratified")  # its class has no other row
    assert 5 not in lonely
    assert lonely[3] + lonely[4] == pytest.approx(1 / 2, abs=0.03)


def test_nearest_partners_are_the_neighbours_each_as_likely() -> None:
    plan = make_plan(CODES, partners="nearest", per_row=2000, neighbours=NEIGHBOURS)
    for row in range(6):
        met, counts = np.unique(plan.partner[plan.row == row], return_counts=True)
        assert set(met) == set(NEIGHBOURS[row])
        assert counts.min() > 900
    with pytest.raises(LindaError, match="need `neighbours`"):
        make_plan(CODES, partners="nearest")


def test_classes_without_rows_are_never_drawn() -> None:
    assert set(partners_of(0, "stratified", np.array([0, 0, 4, 4]))) == {1, 2, 3}


@pytest.mark.parametrize(
    ("text", "low", "high"), [("uniform", 0, 1), ("0.2-0.8", 0.2, 0.8), ("0.5", 0.5, 0.5), ("beta:0.4", 0, 1)]
)
def test_ratios_fill_their_range(text: str, low: float, high: float) -> None:
    alpha = make_plan(np.zeros(2, dtype=int), ratio=text, per_row=2000).alpha
    assert alpha.min() == pytest.approx(low, abs=0.02)
    assert alpha.max() == pytest.approx(high, abs=0.02)
    assert alpha.mean() == pytest.approx((low + high) / 2, abs=0.02)


def test_beta_below_one_leans_to_the_ends() -> None:
    alpha = make_plan(np.zeros(2, dtype=int), ratio="beta:0.4", per_row=2000).alpha
    assert alpha.var() == pytest.approx(1 / (4 * (2 * 0.4 + 1)), rel=0.05)  # the variance of Beta(b, b)


@pytest.mark.parametrize("text", ["", "half", "1.5", "0.8-0.2", "beta:0", "beta:-1", "beta:x", "-0.5", "nan"])
def test_a_bad_ratio_is_refused_with_the_ways_out(text: str) -> None:
    with pytest.raises(LindaError, match=r"beta:0\.4"):
        Ratio.parse(text)


def test_a_single_row_is_its_own_partner_where_nothing_is_mixed() -> None:
    plan = make_plan(np.array([-1, 0]), per_row=2, partners=None)
    assert plan.row.tolist() == plan.partner.tolist() == [1, 1]
    assert make_plan(CODES, partners=None) == make_plan(
        CODES
    )  # partners are drawn anyway: all methods have the same plan


@pytest.mark.parametrize(
    ("codes", "options", "message"),
    [
        ([0], {}, "one row"),
        ([], {}, "no rows"),
        ([-1], {"partners": None}, "no rows"),
        ([0, -1], {}, "one row"),
        ([0, 1], {"partners": "same"}, "same label"),
        ([0, 0], {"partners": "different"}, "all rows have the same label"),
        ([0, 0], {"partners": "nearest"}, "'nearest'"),
        ([0, 0], {"per_row": 0}, "per_row is 0"),
        ([0, 0], {"total": 0}, "total is 0"),
        ([0, 0], {"seed": -1}, "-1"),
    ],
)
def test_what_cannot_be_planned_is_told(codes: list[int], options: dict, message: str) -> None:
    with pytest.raises(LindaError, match=message):
        make_plan(np.array(codes, dtype=int), **options)


@pytest.mark.parametrize("name", ["plan.csv", "plan.jsonl", "plan.csv.gz", "plan.jsonl.xz"])
def test_a_plan_is_read_back_as_it_was_saved(tmp_path: Path, name: str) -> None:
    plan = make_plan(CODES, ratio="beta:0.4", per_row=5)
    plan.save(tmp_path / name)
    assert Plan.read(tmp_path / name) == plan


def test_a_plan_prints_as_a_short_table() -> None:
    lines = str(make_plan(CODES, per_row=10)).splitlines()
    assert lines[0].split() == ["row", "partner", "alpha", "seed"]
    assert len(lines) == 12
    assert "50 more" in lines[-1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("row,partner,alpha\n0,1,0.5\n", "seed"),
        ("row,partner,alpha,seed\n0,x,0.5,1\n", "line 2.*integers"),
        ("row,partner,alpha,seed\n0,1,0.5,1\n0,1,1.5,1\n", "line 3: alpha is 1.5"),
        ("row,partner,alpha,seed\n0,1\n", "line 2"),
        ("row,partner,alpha,seed\n0,1,0.5,-3\n", "line 2: the seed is -3"),
        (f"row,partner,alpha,seed\n0,1,0.5,{2**70}\n", "line 2: the seed is 118"),
    ],
)
def test_a_damaged_plan_is_told_with_its_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "plan.csv").write_text(content)
    with pytest.raises(LindaError, match=message):
        Plan.read(tmp_path / "plan.csv")


@pytest.mark.parametrize(
    ("row", "message"),
    [(PlanRow(0, 9, 0.5, 1), "rows 0 to 6"), (PlanRow(-1, 0, 0.5, 1), "row -1"), (PlanRow(0, 6, 0.5, 1), "skipped")],
)
def test_a_plan_for_other_data_is_refused(row: PlanRow, message: str) -> None:
    with pytest.raises(LindaError, match=message):
        Plan.of([row]).check_fits(CODES)
