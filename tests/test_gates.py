"""Gates reject copies, runaways and drifted texts, and accept good mixtures."""

import pytest

from linda.augmentation.gates import Gates, Seen

A = ("What is the capital of France?",)
B = ("How many people live in the city of Tokyo?",)


def judge(text: str, gates: Gates | None = None, between: bool = True) -> str | None:
    return (gates or Gates()).rejected_by((text,), A, B, between)


@pytest.mark.parametrize(
    "text",
    [
        "How many people live in the capital of France?",
        "What is the city of Tokyo?",
        "What is the capital city?",
        "How many people live in Paris?",
    ],
)
def test_mixtures_pass(text: str) -> None:
    assert judge(text) is None


@pytest.mark.parametrize("text", [A[0], B[0], "what is the capital of france", "What is the capital of France ?"])
def test_a_copy_of_a_parent_is_stopped_unless_it_was_asked_for(text: str) -> None:
    assert judge(text) == "copies"
    assert judge(text, between=False) is None


@pytest.mark.parametrize(
    "text", ["", "  ", "?", "the capital of " * 9, "city of the city of the city of the city of the city of", "o" * 200]
)
def test_empty_and_runaway_texts_are_stopped(text: str) -> None:
    assert judge(text) == "runaway"


def test_a_parent_that_repeats_itself_may_have_children_that_do() -> None:
    chant = ("to be or not to be or not to be or not to be or not to be or not to sing",)
    child = ("to be or not to be or not to be or not to be or not to be or not to be",)
    assert Gates().rejected_by(child, chant, chant, between=True) is None


def test_texts_without_words_are_judged_by_their_characters() -> None:
    assert Gates().rejected_by(("🙂🙃",), ("🙂",), ("🙃",), between=True) is None
    assert Gates().rejected_by(("🙂",), ("🙂",), ("🙃",), between=True) == "copies"


def test_the_failure_of_the_paper_has_drifted() -> None:
    assert judge("The film was released in the United States on October 2, 2019.") == "drift"


@pytest.mark.parametrize("gate", ["copies", "runaway", "drift"])
def test_each_gate_has_a_switch(gate: str) -> None:
    bad = {"copies": A[0], "runaway": "", "drift": "The film was released on October 2."}[gate]
    assert judge(bad) == gate
    assert judge(bad, Gates(**{gate: False})) is None


def test_a_method_with_one_parent_is_judged_by_that_one() -> None:
    assert Gates().rejected_by(A, A, None, between=True) == "copies"
    assert Gates().rejected_by(("What is the capital town of France?",), A, None, between=True) is None


def test_a_pair_is_a_copy_only_if_both_its_texts_are() -> None:
    first, second = ("a red dog ran", "the dog moved"), ("an old man sat", "the man rested")
    gates = Gates()
    assert gates.rejected_by(first, first, second, between=True) == "copies"
    assert gates.rejected_by((first[0], second[1]), first, second, between=True) is None
    assert gates.rejected_by((first[0], "stocks fell sharply"), first, second, between=True) == "drift"


def test_what_was_seen_is_known_again_whatever_its_case_and_spaces() -> None:
    seen = Seen([("A red dog.",)])
    assert ("a  red dog",) in seen
    assert ("a red cat",) not in seen
    seen.add(("a red cat",))
    assert ("a red cat",) in seen
    assert ("a red", "cat") not in seen  # a pair is different
