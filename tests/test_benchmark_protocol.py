from collections import Counter

import pytest

from linda.benchmark.protocol import Protocol, draw, split, texts_not_drawn
from linda.benchmark.tasks import BenchmarkTask, LabelledRows
from linda.errors import LindaError


def rows(count: int, domains: bool = False) -> LabelledRows:
    labels = ["a" if n % 3 else "b" for n in range(count)]  # two of three are a
    return LabelledRows(
        [f"text {n}" for n in range(count)], None, labels, [f"d{n % 2}" for n in range(count)] if domains else None
    )


def task(count: int = 90, domains: bool = False, **more: bool) -> BenchmarkTask:
    return BenchmarkTask("toy", rows(count, domains), {"test": rows(40, domains)}, **more)


def drawn(protocol: Protocol, seed: int) -> LabelledRows:
    return draw(task(), split(task(), None, "test", None).pool, protocol, seed)


def test_shots_are_so_many_of_each_class() -> None:
    for seed in range(5):
        assert Counter(drawn(Protocol(shots=5), seed).labels) == {"a": 5, "b": 5}


def test_a_seed_fixes_the_rows_and_smaller_draws_are_part_of_larger_ones() -> None:
    assert drawn(Protocol(shots=5), 3) == drawn(Protocol(shots=5), 3)
    assert drawn(Protocol(shots=5), 3) != drawn(Protocol(shots=5), 4)
    assert set(drawn(Protocol(shots=5), 3).texts) < set(drawn(Protocol(shots=10), 3).texts)
    assert set(drawn(Protocol(train_size=10), 3).texts) < set(drawn(Protocol(train_size=20), 3).texts)


def test_full_and_sized() -> None:
    assert len(drawn(Protocol(), 0)) == 90
    assert len(drawn(Protocol(train_size=20), 0)) == 20
    assert len(drawn(Protocol(train_size=1000), 0)) == 90
    assert [Protocol(shots=5).name, Protocol(train_size=20).name, Protocol().name] == ["5-shot", "20 rows", "full"]


def test_a_size_that_no_pool_reaches_is_full() -> None:
    assert Protocol(train_size=91).for_task(task(), [90, 20]) == [Protocol()]
    assert Protocol(train_size=90).for_task(task(), [90, 20]) == [Protocol(train_size=90)]  # a sample of that size
    assert Protocol(shots=5).for_task(task(), [3]) == [Protocol(shots=5)]


def test_more_shots_than_a_class_has() -> None:
    with pytest.raises(LindaError, match=r"toy: the class 'b' has 30 rows to draw 31 from; .*--small-classes"):
        drawn(Protocol(shots=31), 0)
    lenient = task(small_classes=True)
    assert Counter(draw(lenient, lenient.train, Protocol(shots=31), 0).labels) == {"a": 31, "b": 30}


def test_every_domain_of_the_test_set_is_tested_and_every_training_domain_must_be_there() -> None:
    train, test = rows(12, domains=True), rows(40, domains=True)
    elsewhere = LabelledRows(test.texts, None, test.labels, ["d0", "d1", "d2", "d2"] * 10)
    parts = split(BenchmarkTask("toy", train, {"test": elsewhere}), "d0", "test", None)
    assert {name: len(found) for name, found in parts.tests.items()} == {"d0": 10, "d1": 10, "d2": 20}
    nowhere = LabelledRows(test.texts, None, test.labels, ["d1"] * 40)
    with pytest.raises(LindaError, match="toy: the domain 'd0' is in the training rows, but not in the test rows"):
        split(BenchmarkTask("toy", train, {"test": nowhere}), "d0", "test", None)


def test_a_domain_with_too_few_rows_is_named() -> None:
    few = task(12, domains=True)
    with pytest.raises(LindaError, match="toy, domain 'd0': the class 'b' has 2 rows to draw 3 from"):
        draw(few, split(few, "d0", "test", None).pool, Protocol(shots=3), 0)


def test_every_domain_has_its_part_in_validation() -> None:
    train = rows(60)
    many = LabelledRows(train.texts, None, train.labels, [f"d{n // 5}" for n in range(60)])  # twelve of five rows
    for domain in ("d0", "d7"):
        parts = split(BenchmarkTask("toy", many, {"test": many}), domain, "validation", None)
        assert {name: len(found) for name, found in parts.tests.items()} == {f"d{n}": 1 for n in range(12)}
        assert len(parts.pool) == 4


def test_validation_is_a_fixed_part_of_training_that_is_not_trained_on() -> None:
    parts = split(task(), None, "validation", None)
    assert len(parts.tests["test"]) == 18
    assert set(parts.tests["test"].texts) | set(parts.pool.texts) == set(task().train.texts)
    assert not set(parts.tests["test"].texts) & set(parts.pool.texts)
    assert parts == split(task(), None, "validation", None)


def test_test_size_is_the_same_subset_always() -> None:
    small = split(task(), None, "test", 10).tests["test"]
    assert len(small) == 10
    assert small == split(task(), None, "test", 10).tests["test"]
    assert len(split(task(), None, "test", 1000).tests["test"]) == 40


def test_one_domain_trains_and_all_are_tested() -> None:
    by_domain = task(domains=True)
    parts = split(by_domain, "d1", "test", None)
    assert set(parts.pool.domains or ()) == {"d1"}
    assert {name: set(test.domains or ()) for name, test in parts.tests.items()} == {"d0": {"d0"}, "d1": {"d1"}}


def test_a_rare_class_has_its_own_number_of_rows() -> None:
    protocol = Protocol(imbalance=(5, 20), rare="b")
    assert Counter(drawn(protocol, 1).labels) == {"a": 20, "b": 5}
    assert protocol.name == "5:20 b"
    assert set(drawn(protocol, 1).texts) < set(drawn(Protocol(imbalance=(10, 40), rare="b"), 1).texts)
    with pytest.raises(LindaError, match="the class 'a' has 60 rows to draw 100 from"):
        drawn(Protocol(imbalance=(5, 100), rare="b"), 0)


def test_each_class_is_rare_in_turn_unless_one_is_named() -> None:
    ratio = Protocol(imbalance=(5, 20))
    assert [protocol.rare for protocol in ratio.for_task(task(), [90])] == ["a", "b"]
    assert [protocol.rare for protocol in Protocol(imbalance=(5, 20), rare="b").for_task(task(), [90])] == ["b"]
    numbers = BenchmarkTask("toy", LabelledRows(["x", "y"], None, [0, 1], None), {})
    assert Protocol(imbalance=(1, 1), rare="1").for_task(numbers, [2]) == [Protocol(imbalance=(1, 1), rare=1)]
    with pytest.raises(LindaError, match=r"toy has no class 'c' \(--rare\); it has 'a', 'b'"):
        Protocol(imbalance=(5, 20), rare="c").for_task(task(), [90])


def test_natural_draws_keep_the_shares_of_the_data() -> None:
    natural = Protocol(train_size=30, is_natural=True)
    assert Counter(drawn(natural, 4).labels) == {"a": 20, "b": 10}
    assert natural.name == "natural 30 rows"
    assert Protocol(is_natural=True).name == "natural"
    assert len(drawn(Protocol(is_natural=True), 0)) == 90
    rare = LabelledRows([f"text {n}" for n in range(100)], None, ["a"] * 99 + ["b"], None)
    skewed = BenchmarkTask("toy", rare, {"test": rare})
    for seed in range(5):
        assert Counter(draw(skewed, rare, Protocol(train_size=10, is_natural=True), seed).labels) == {"a": 10, "b": 1}


def test_noise_replaces_the_labels_of_a_share_of_the_same_rows() -> None:
    clean, noisy = drawn(Protocol(shots=20), 2), drawn(Protocol(shots=20, label_noise=0.3), 2)
    assert clean.texts == noisy.texts
    assert sum(a != b for a, b in zip(clean.labels, noisy.labels, strict=True)) == 12
    assert noisy == drawn(Protocol(shots=20, label_noise=0.3), 2)
    assert Protocol(shots=20, label_noise=0.3).name == "20-shot noise 0.3"


def test_rare_classes_are_reported() -> None:
    assert Protocol(imbalance=(5, 20), rare="b").rare_classes(task()) == ["b"]
    assert Protocol(shots=5).rare_classes(task()) == []
    assert Protocol(is_natural=True).rare_classes(task()) == []  # a third of the rows is not rare
    labels = ["a"] * 8 + ["b"] * 8 + ["c"] * 2
    skewed = BenchmarkTask("toy", LabelledRows([""] * 18, None, labels, None), {})
    assert Protocol(is_natural=True).rare_classes(skewed) == ["c"]


def test_texts_that_are_not_drawn_are_left_as_unlabelled() -> None:
    protocol = Protocol(shots=5)
    rest = texts_not_drawn(task(), task().train, protocol, 3)
    assert len(rest) == 80
    assert not set(rest) & set(drawn(protocol, 3).texts)
