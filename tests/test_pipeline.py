"""New rows depend on the plan, their parents and the rows before them, not on how the work is split."""

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from linda.augmentation.gates import Gates, Seen
from linda.augmentation.label_rules import LabelRule
from linda.augmentation.pipeline import Chunk, augment_rows
from linda.augmentation.settings import AugmentationSettings
from linda.augmentation.summary import Tally
from linda.augmentation.tables import NewRow
from linda.augmentation.texts import Draft, TextRequest, Writer, write_here, write_in_processes
from linda.errors import LindaError
from linda.planning.examples import Examples, ListTable, read_examples
from linda.planning.plan import Plan, PlanRow, make_plan
from splice import Shout, Splice, no_writer, sentences, splice

TEXTS = sentences(12)


def examples_of(texts: list[str], labels: list[Any] | None = None, **more: Any) -> Examples:
    return read_examples(ListTable({"text": texts, "label": labels or [row % 3 for row in range(len(texts))], **more}))


def make(
    examples: Examples,
    plan: Plan,
    method: Any = None,
    *,
    chunk_size: int = 4,
    gates: Gates | None = None,
    retries: int = 2,
    rule: LabelRule | None = None,
) -> list[Chunk]:
    method, gates, rule = method or Splice(), gates or Gates(), rule or LabelRule()
    settings = AugmentationSettings(
        method=method, labels=rule.mode, temperature=rule.temperature, gates=gates, batch_size=chunk_size
    )
    with write_here(Writer(method, gates, retries)) as write_all:
        return list(augment_rows(examples, plan, settings, write_all, rule.teacher))


def rows_of(chunks: list[Chunk]) -> list[NewRow]:
    return [row for chunk in chunks for row in chunk.rows]


def total(chunks: list[Chunk]) -> Tally:
    return sum((chunk.tally for chunk in chunks), Tally())


def test_a_row_has_the_text_label_and_record_of_its_plan() -> None:
    examples = examples_of(TEXTS)
    (row,) = rows_of(make(examples, Plan.of([PlanRow(4, 9, 0.3, 77)])))
    assert row == NewRow((splice(TEXTS[4], TEXTS[9], 0.3),), [0.7, 0.3, 0.0], 4, 9, 0.3, 77)


@pytest.mark.parametrize("chunk_size", [1, 5, 1000])
def test_rows_do_not_depend_on_the_chunks(chunk_size: int) -> None:
    """Few texts and many rows give many duplicates, within chunks and between them."""
    examples = examples_of(TEXTS[:4])
    plan = make_plan(examples.labels.codes, per_row=30, ratio="0.3-0.7")
    expected = make(examples, plan, chunk_size=7)
    assert total(expected).left_out["duplicates"] > 0
    assert total(expected).stopped["duplicates"] > total(expected).left_out["duplicates"]
    found = make(examples, plan, chunk_size=chunk_size)
    assert rows_of(found) == rows_of(expected)
    assert total(found) == total(expected)


def test_duplicates_are_decided_as_if_rows_were_written_one_by_one() -> None:
    examples = examples_of(TEXTS[:3])
    plan = make_plan(examples.labels.codes, per_row=20, ratio="0.3-0.7")
    seen = Seen(example for _, example in examples.scan())
    one_by_one = []
    for row in plan:
        task = TextRequest(*examples.fetch([row.row, row.partner]), row.alpha, row.seed)
        for attempt in range(3):  # the writer gets no attempts of its own beyond this one
            (draft,) = Writer(Splice(), Gates(), retries=attempt)([replace(task, attempt=attempt)])
            if draft.example is not None and draft.example not in seen:
                seen.add(draft.example)
                one_by_one.append(draft.example)
                break
    assert [row.example for row in rows_of(make(examples, plan, chunk_size=16))] == one_by_one


def test_workers_write_the_same_rows() -> None:
    examples = examples_of(TEXTS)
    plan = make_plan(examples.labels.codes, per_row=3)
    settings = AugmentationSettings(method=Splice(), batch_size=5)
    with write_in_processes(partial(Writer, Splice(), Gates(), 2), workers=2) as write_all:
        found = list(augment_rows(examples, plan, settings, write_all))
    assert rows_of(found) == rows_of(make(examples, plan))


def test_what_is_wrong_in_a_worker_is_told_by_its_own_message() -> None:
    task = TextRequest(("a",), ("b",), 0.5, 0)
    with write_in_processes(no_writer, workers=1) as write_all, pytest.raises(LindaError, match="no such model"):
        next(write_all([[task]]))


def test_a_stopped_row_is_written_again_and_then_left_out() -> None:
    task = TextRequest((TEXTS[0],), (TEXTS[1],), 0.05, 5)  # the splice is a copy of the second text
    (draft,) = Writer(Splice(), Gates(), retries=2)([task])
    assert draft.stopped_by == ("copies",)
    assert draft.attempt == 1
    assert Writer(Splice(), Gates(), retries=0)([task]) == [Draft(None, 1, ("copies",))]


def test_every_attempt_has_a_seed_of_its_own() -> None:
    seeds: list[int] = []

    class Stubborn(Splice):
        sampling = None  # type: ignore[assignment]

        def texts(self, a: Any, b: Any, alpha: Any, seeds_: Any) -> list[str]:
            seeds.extend(seeds_)
            return [""] * len(a)

    Stubborn.sampling = Stubborn()  # type: ignore[assignment]
    Writer(Stubborn(), Gates(), retries=2)([TextRequest(("a", "b"), ("c", "d"), 0.5, 5)])
    assert seeds[0] == 5  # plan_seed in the output reproduces the first text of a row
    assert len(set(seeds)) == 6  # three attempts, two columns


def test_the_tally_tells_what_each_gate_did() -> None:
    examples = examples_of(TEXTS)
    plan = Plan.of([PlanRow(0, 1, 0.5, 1), PlanRow(0, 1, 0.05, 2), PlanRow(2, 3, 0.0, 3)])
    chunks = make(examples, plan, retries=0)
    # The last row requests its partner itself, which the copy gate allows, but it is a duplicate.
    assert total(chunks) == Tally(
        3, 1, Counter(copies=1, duplicates=1), Counter(copies=1, duplicates=1), Counter({0: 1})
    )


def test_methods_that_change_one_text_keep_its_label_and_have_no_partner() -> None:
    examples = examples_of(TEXTS)
    (row,) = rows_of(make(examples, Plan.of([PlanRow(4, 9, 0.3, 77)]), Shout()))
    assert row == NewRow((f"{TEXTS[4]} loudly",), [0.0, 1.0, 0.0], 4, None, None, 77)


def test_both_texts_of_a_pair_are_mixed_by_the_same_plan_row() -> None:
    lists = {"text": TEXTS[:4], "second": TEXTS[4:8], "label": [0, 1, 0, 1]}
    examples = read_examples(ListTable(lists), pair="second")
    (row,) = rows_of(make(examples, Plan.of([PlanRow(0, 3, 0.5, 1)])))
    assert row.example == (splice(TEXTS[0], TEXTS[3], 0.5), splice(TEXTS[4], TEXTS[7], 0.5))


def labels_of(rule: LabelRule, alpha: float, labels: list[Any], method: Any = None) -> list[float]:
    examples = examples_of(TEXTS[:2], labels)
    (row,) = rows_of(make(examples, Plan.of([PlanRow(0, 1, alpha, 1)]), method, rule=rule))
    return row.label_probs


class Teacher:
    def predict_proba(self, texts: list[str]) -> list[list[float]]:
        return [[0.1, 0.9] for _ in texts]


def test_each_label_mode() -> None:
    assert labels_of(LabelRule("interpolated"), 0.6, [0, 1]) == [0.6, 0.4]
    assert labels_of(LabelRule("sharpened", 0.5), 0.6, [0, 1]) == [
        pytest.approx(0.36 / 0.52, abs=1e-6),
        pytest.approx(0.16 / 0.52, abs=1e-6),
    ]
    assert labels_of(LabelRule("hard"), 0.6, [0, 1]) == [1.0, 0.0]
    # round(0.6·6) = 4 of 6 words are the first text's, whatever the requested ratio
    assert labels_of(LabelRule("measured"), 0.6, [0, 1]) == [
        pytest.approx(4 / 6, abs=1e-6),
        pytest.approx(2 / 6, abs=1e-6),
    ]
    assert labels_of(LabelRule("predicted", teacher=Teacher()), 0.6, [0, 1]) == [0.1, 0.9]


def test_soft_labels_are_mixed_too() -> None:
    assert labels_of(LabelRule(), 0.5, [[0.8, 0.2], [0.4, 0.6]]) == [0.6, 0.4]
    assert labels_of(LabelRule("hard"), 0.5, [[0.8, 0.2], [0.4, 0.6]]) == [1.0, 0.0]


@pytest.mark.parametrize(("mode", "temperature"), [("guessed", 0.5), ("sharpened", 0.0)])
def test_a_bad_label_rule_is_refused_at_once(mode: str, temperature: float) -> None:
    with pytest.raises(LindaError):
        LabelRule(mode, temperature)


def test_chunks_can_begin_anywhere() -> None:
    examples = examples_of(TEXTS)
    plan = make_plan(examples.labels.codes, per_row=2)
    settings = AugmentationSettings(method=Splice(), batch_size=5)
    with write_here(Writer(Splice(), Gates(), 2)) as write_all:
        whole = list(augment_rows(examples, plan, settings, write_all))
        before = [chunk for chunk in whole if chunk.stop <= 10]
        rest = list(augment_rows(examples, plan, settings, write_all, done=before))
    assert rows_of(before) + rows_of(rest) == rows_of(whole)
    assert np.array_equal([chunk.start for chunk in rest], [10, 15, 20])
