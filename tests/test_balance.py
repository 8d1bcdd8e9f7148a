"""Classes are filled up by as many rows as they need, spread evenly over rows and pairs."""

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from linda.augmentation import Augmenter, augment
from linda.cli import main
from linda.errors import LindaError
from linda.file_runs.file_pipeline import augment_file
from linda.planning.balance import BalancedPlanner, parse_balance, rows_to_make
from linda.planning.plan import PARTNERS, Plan, PlanRow
from splice import Shout, Splice, sentences

COUNTS = {"common": 100, "other": 60, "rare": 10}
CODES = np.array([0] * 5 + [1] * 20 + [2, -1])
NEIGHBOURS = np.array([[(row + 1) % 26, (row + 2) % 26] for row in range(27)], dtype=np.int32)


# --- how many rows ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("balance", "made"),
    [
        (True, (0, 40, 90)),
        ("largest", (0, 40, 90)),
        (1.0, (0, 40, 90)),
        (80, (0, 20, 70)),
        ("80", (0, 20, 70)),
        (np.int64(120), (20, 60, 110)),
        (0.5, (0, 0, 40)),
        ("0.5", (0, 0, 40)),
        ({"rare": 30}, (0, 0, 20)),
        ("rare=30,common=100", (0, 0, 20)),
    ],
)
def test_how_many_rows_each_class_needs(balance: Any, made: tuple[int, ...]) -> None:
    assert rows_to_make(COUNTS, balance) == dict(zip(COUNTS, made, strict=True))


def test_classes_of_any_type_and_name_can_be_given() -> None:
    assert rows_to_make({0: 4, 1: 2}, "1=5") == {0: 0, 1: 3}
    assert rows_to_make({False: 4, True: 2}, {True: 5}) == {False: 0, True: 3}
    assert parse_balance("a,b=3,c=4=5") == {"a,b": 3, "c=4": 5}


def test_a_class_without_rows_gets_none() -> None:
    assert rows_to_make({"yes": 3, "no": 5, "perhaps": 0}, True) == {"yes": 2, "no": 0, "perhaps": 0}
    with pytest.raises(LindaError, match=r"no rows of the class 'perhaps'; the data has 'yes', 'no'$"):
        rows_to_make({"yes": 3, "no": 5, "perhaps": 0}, {"perhaps": 5})


@pytest.mark.parametrize(
    ("balance", "message"),
    [
        ("raer=30", "no rows of the class 'raer'; the data has 'common', 'other', 'rare'"),
        ({"rare": 5}, "requests 5 rows of the class 'rare', which has 10; rows are never dropped"),
        (9, "requests 9 rows per class, but every class has at least 10; rows are never dropped"),
        (0.05, "requests 5 rows per class, but every class has at least 10"),
    ],
)
def test_what_does_not_fit_the_data_is_told(balance: Any, message: str) -> None:
    with pytest.raises(LindaError, match=message):
        rows_to_make(COUNTS, balance)


@pytest.mark.parametrize(
    "balance", [0, -3, 0.0, 1.5, False, "", "rare", "rare=", "rare=x", "rare=3,", "rare=0", "in.csv", {}, {"rare": 2.5}]
)
def test_what_is_no_balance_is_told(balance: Any) -> None:
    with pytest.raises(LindaError, match=r"balance is .*rare=300,other=100"):
        Augmenter(balance=balance)


# --- which rows -------------------------------------------------------------------------------------------------


def planner(made: int, partners: str | None = "same", **options: Any) -> BalancedPlanner:
    return BalancedPlanner(CODES, np.array([made, 0, 0]), partners=partners, neighbours=NEIGHBOURS, **options)


def pairs_of(plan: Plan) -> list[frozenset[int]]:
    return [frozenset((row.row, row.partner)) for row in plan]


@pytest.mark.parametrize("size", [2, 3, 4, 7, 10])
def test_every_pair_is_used_before_one_is_used_again(size: int) -> None:
    every = size * (size - 1) // 2
    plan = BalancedPlanner(np.zeros(size, dtype=int), np.array([3 * every])).draw()
    for cycle in range(3):
        assert len(set(pairs_of(plan[cycle * every : (cycle + 1) * every]))) == every
    by_pair: dict[frozenset[int], set[float]] = {}
    for row, pair in zip(plan, pairs_of(plan), strict=True):
        by_pair.setdefault(pair, set()).add(row.alpha if row.row == min(pair) else round(1 - row.alpha, 4))
    assert all(len(ratios) == 3 for ratios in by_pair.values())


@pytest.mark.parametrize("size", [2, 6, 9])
def test_rows_are_used_equally_often_at_any_length(size: int) -> None:
    plan = BalancedPlanner(np.zeros(size, dtype=int), np.array([5 * size])).draw()
    for length in range(1, len(plan)):
        used = Counter([*plan.row[:length].tolist(), *plan.partner[:length].tolist()])
        uses = [used[row] for row in range(size)]
        assert max(uses) - min(uses) <= 1 + size % 2  # of an odd number of rows, one sits out each round


@pytest.mark.parametrize("partners", ["any", "different", "nearest", "stratified", None])
def test_rows_take_turns_with_partners_of_every_kind(partners: str | None) -> None:
    plan = planner(50, partners).draw()
    assert Counter(plan.row.tolist()) == dict.fromkeys(range(5), 10)
    assert (plan.row != plan.partner).all()
    assert 26 not in plan.partner
    if partners in ("any", "different"):
        assert len(set(zip(plan.row.tolist(), plan.partner.tolist(), strict=True))) == 50


@pytest.mark.parametrize("partners", [kind for kind in PARTNERS if kind != "same"])
def test_a_new_row_is_mostly_of_the_class_that_is_filled(partners: str) -> None:
    plan = planner(200, partners).draw()
    other = CODES[plan.partner] != 0
    assert other.any()
    assert plan.alpha[other].min() >= 0.5
    assert plan.alpha[other].max() > 0.9


@pytest.mark.parametrize("partners", [*PARTNERS, None])
@pytest.mark.parametrize("ratio", ["uniform", "beta:0.4"])
def test_a_plan_is_continued_where_it_ended(partners: str | None, ratio: str) -> None:
    whole = planner(30, partners, ratio=ratio).draw()
    first = planner(12, partners, ratio=ratio).draw()
    assert planner(30, partners, ratio=ratio).extended(first, np.array([12, 0, 0])) == whole
    assert whole != planner(30, partners, ratio=ratio, seed=1).draw()
    assert planner(30, partners).extended(whole, np.array([30, 0, 0])) == whole


def test_classes_have_plans_of_their_own() -> None:
    both = BalancedPlanner(CODES, np.array([4, 3, 0])).draw()
    assert both[:4] == BalancedPlanner(CODES, np.array([4, 0, 0])).draw()
    assert both[4:] == BalancedPlanner(CODES, np.array([0, 3, 0])).draw()


@pytest.mark.parametrize(("ratio", "limit"), [("0.5", 10), ("0.3", 20), ("0.2-0.8", 10 * 6001)])
def test_the_number_of_pairs_and_ratios_is_the_limit(ratio: str, limit: int) -> None:
    assert planner(0, ratio=ratio).limits()[0] == limit
    plan = planner(limit, ratio=ratio).draw()
    if limit <= 20:
        assert len({(row.row, row.partner, row.alpha) for row in plan}) == limit
    assert len(planner(limit + 1, ratio=ratio).draw()) == limit


# --- public functions ------------------------------------------------------------------------------------------

LABELS = ["common"] * 12 + ["rare"] * 4 + ["single"]
LISTS = {"text": sentences(17), "label": LABELS}
PAIRS = {name: values[:16] for name, values in LISTS.items()}
QUICK: dict[str, Any] = {"method": Splice(), "ratio": "0.2-0.8"}


def counts_of(rows: Any) -> dict[str, int]:
    return dict(Counter(row["label"] for row in rows))


def test_the_same_rows_for_every_kind_of_data() -> None:
    rows = augment(PAIRS, balance=True, **QUICK)
    assert counts_of(rows) == {"common": 12, "rare": 12}
    assert [row["text"] for row in rows[:16]] == PAIRS["text"]
    assert {row["parent_a"] for row in rows[16:]} <= set(range(12, 16))
    frame = augment(pd.DataFrame(PAIRS), balance=True, only_new=True, **QUICK)
    assert frame["text"].tolist() == [row["text"] for row in rows[16:]]
    dataset = augment(datasets.Dataset.from_dict(PAIRS), balance=True, only_new=True, **QUICK)
    assert dataset["text"][:] == frame["text"].tolist()


@pytest.mark.parametrize("method", [Shout(), "eda"])
def test_methods_that_mix_nothing_rewrite_single_rows(method: Any, capsys: pytest.CaptureFixture[str]) -> None:
    data = {"text": [f"The old film number {row} was a great success in the city." for row in range(17)]}
    rows = augment({**data, "label": LABELS}, balance={"single": 2, "rare": 6}, method=method, progress=True)
    assert counts_of(rows) == {"common": 12, "rare": 6, "single": 2}
    assert "label single             1 before         2 after, its single row was rewritten" in capsys.readouterr().err


def test_a_single_row_without_partner_is_left_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(UserWarning, match=r"single row.*stay as they are: 'single'; fill them with --partners any"):
        rows = augment(LISTS, balance=True, progress=True, **QUICK)
    assert counts_of(rows) == {"common": 12, "rare": 12, "single": 1}
    summary = capsys.readouterr().err
    assert "label common            12 before        12 after\n" in summary
    assert "label rare               4 before        12 after\n" in summary
    assert "label single             1 before         1 after, its single row was left as it is\n" in summary


def test_with_partners_of_any_label_a_single_row_is_filled_up() -> None:
    rows = augment(LISTS, balance=True, partners="any", ratio="0.6-0.8", method=Splice())
    assert counts_of(rows) == {"common": 12, "rare": 12, "single": 12}


class Picky(Splice):
    """Writes empty texts for odd seeds, so that about half of the rows are left out."""

    def texts(self, a: Any, b: Any, alpha: Any, seeds: Any) -> list[str]:
        texts = super().texts(a, b, alpha, seeds)
        return ["" if seed % 2 else text for text, seed in zip(texts, seeds, strict=True)]

    @property
    def sampling(self) -> "Picky":
        return self


def test_rows_that_gates_reject_are_replaced_by_others() -> None:
    data = {"text": sentences(60), "label": [0] * 52 + [1] * 8}
    settings: dict[str, Any] = {"balance": True, "ratio": "0.2-0.8", "retries": 0}
    rows = augment(data, method=Picky(), batch_size=7, **settings)
    assert counts_of(rows) == {0: 52, 1: 52}
    assert rows == augment(data, method=Picky(), **settings)  # the batch size has no effect
    new = rows[60:]
    assert len({row["text"] for row in new}) == 44


def test_too_few_different_texts_are_told() -> None:
    two = {"text": sentences(42), "label": [0] * 40 + [1] * 2}
    with pytest.warns(UserWarning, match=r"the class 1 got \d+ of 38 new rows, because the gates rejected the others"):
        rows = augment(two, balance=True, retries=0, **QUICK)
    assert counts_of(rows)[1] < 40  # two texts of six words can be spliced at only five places
    with pytest.raises(
        LindaError, match=r"38 new rows of the class 1 .* 2 rows allow only 1 different pairs and ratio"
    ):
        augment(two, balance=True, method=Splice(), ratio="0.5")


def test_balanced_data_stays_as_it_is() -> None:
    data = {"text": sentences(4), "label": [0, 1] * 2}
    with pytest.warns(UserWarning, match="nothing to add"):
        assert len(augment(data, balance=True, **QUICK)) == 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"per_row": 2}, "leave out per_row and total"),
        ({"total": 9}, "leave out per_row and total"),
        ({"plan": Plan.of([PlanRow(0, 1, 0.5, 1)])}, "leave out the plan or balance"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_what_balance_cannot_be_combined_with(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(LindaError, match=message):
        augment(PAIRS, balance=True, **QUICK, **settings)


def test_datasets_map_cannot_balance() -> None:
    with pytest.raises(LindaError, match=r"balance needs a whole table.*linda\.augment"):
        Augmenter(balance=True, **QUICK)({"text": sentences(2), "label": [0, 0]})


# --- files ------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    texts = [f"The old film number {row} was a great success in the city." for row in range(17)]
    rows = [f"{text},{label}\n" for text, label in zip(texts, LABELS, strict=True)]
    (tmp_path / "in.csv").write_text("text,label\n" + "".join(rows))
    return tmp_path


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["augment", "in.csv", *arguments], catch_exceptions=False)


def csv_counts(path: Path) -> dict[str, int]:
    with path.open(newline="") as file:
        return counts_of(csv.DictReader(file))


@pytest.mark.parametrize(
    ("balance", "counts"),
    [
        (["--balance"], (12, 12, 12)),
        (["--balance", "14"], (14, 14, 14)),
        (["--balance", "0.5"], (12, 6, 6)),
        (["--balance", "rare=9,single=3"], (12, 9, 3)),
    ],
)
def test_the_command_fills_classes_up(folder: Path, balance: list[str], counts: tuple[int, ...]) -> None:
    result = call(*balance, "--output", "out.csv", "--method", "eda", "--retries", "9")
    assert result.exit_code == 0
    assert csv_counts(folder / "out.csv") == dict(zip(["common", "rare", "single"], counts, strict=True))
    for label, before, after in zip(["common", "rare"], (12, 4), counts, strict=False):
        assert f"label {label:<11}{before:>9,} before {after:>9,} after\n" in result.stderr


def test_nothing_to_add_still_writes_the_originals(folder: Path) -> None:
    result = call("--balance", "rare=4", "--output", "out.csv", "--method", "eda")
    assert result.exit_code == 0
    assert "nothing to add" in result.stderr
    assert csv_counts(folder / "out.csv") == {"common": 12, "rare": 4, "single": 1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--balance", "raer=9"], "no rows of the class 'raer'; the data has 'common', 'rare', 'single'"),
        (["--balance", "rare=2"], "requests 2 rows of the class 'rare', which has 4; rows are never dropped"),
        (["--balance", "many"], "balance is 'many'"),
        (["--balance", "--per-row", "3"], "--per-row has no effect: --balance determines the number of new rows"),
        (["--balance", "--plan", "plan.csv"], "--balance has no effect: --plan already determines it"),
    ],
)
def test_bad_input_is_told_in_one_line(folder: Path, arguments: list[str], message: str) -> None:
    result = call("--output", "out.csv", "--method", "eda", *arguments)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert message in result.stderr
    assert [path.name for path in folder.iterdir()] == ["in.csv"]


def test_saving_the_plan_changes_no_row(folder: Path) -> None:
    settings = ("--balance", "--method", "eda", "--retries", "0")
    call("--output", "a.csv", *settings)
    call("--output", "b.csv", "--save-plan", "plan.csv", *settings)
    assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes()
    assert len((folder / "plan.csv").read_text().splitlines()) == 1 + 8 + 11


class Interrupted(Picky):
    """Fails at its third call."""

    def texts(self, a: Any, b: Any, alpha: Any, seeds: Any) -> list[str]:
        if len(self.batches) >= 2:
            raise KeyboardInterrupt
        return super().texts(a, b, alpha, seeds)


def test_a_run_that_replaces_rows_can_be_resumed_in_every_round(tmp_path: Path) -> None:
    data = [{"text": text, "label": int(row >= 52)} for row, text in enumerate(sentences(60))]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in data))

    def run(method: Splice, output: str, **settings: Any) -> None:
        augmenter = Augmenter(method=method, balance={"1": 52}, ratio="0.2-0.8", retries=0, batch_size=8)
        augment_file(augmenter, tmp_path / "in.jsonl", tmp_path / output, **settings)

    run(Picky(), "whole.jsonl")
    interruptions = 0
    while not (tmp_path / "out.jsonl").exists():
        try:
            run(Interrupted(), "out.jsonl", resume=True)
        except KeyboardInterrupt:
            interruptions += 1
    assert interruptions > 3
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    rows = [json.loads(line) for line in (tmp_path / "whole.jsonl").read_text().splitlines()]
    assert counts_of(rows) == {0: 52, 1: 52}
