"""The embedded model meets its requirements, on sentences that it was not trained on."""

import subprocess
import sys
from pathlib import Path

import pytest

from linda.interpolation import Interpolator
from linda.interpolation.calibration import RAW
from linda.measures import share_of_first, unigram_precision, words
from linda.model.checkpoint import EMBEDDED

PAIRS = [
    ("What is the capital of France?", "How many people live in Tokyo?"),
    ("The museum opened to the public in the spring of 1987.", "She plays the violin in a small orchestra."),
    ("the acting is flat and the story goes nowhere", "a warm , funny and moving little film ."),
    ("I would buy this kettle again without a second thought.", "The strap broke after two days."),
    ("Heavy rain closed the northern road on Tuesday.", "He was elected mayor twice before he moved abroad."),
]
A, B = [a for a, _ in PAIRS], [b for _, b in PAIRS]


@pytest.fixture(scope="module")
def linda() -> Interpolator:
    return Interpolator.from_pretrained()


def test_it_is_small_and_says_nothing_of_the_machine_it_was_made_on() -> None:
    assert sum(path.stat().st_size for path in EMBEDDED.iterdir()) < 64e6
    assert "/" not in (EMBEDDED / "config.json").read_text().replace("</", "")


def test_the_ends_are_the_texts_themselves(linda: Interpolator) -> None:
    at_one, at_zero = linda.mix(A, B, alpha=1.0), linda.mix(A, B, alpha=0.0)
    assert sum(map(unigram_precision, at_one, A)) / len(PAIRS) > 0.95
    assert sum(map(unigram_precision, at_zero, B)) / len(PAIRS) > 0.95


def test_the_path_leads_from_one_to_the_other(linda: Interpolator) -> None:
    shares = [sum(map(share_of_first, linda.mix(A, B, alpha=alpha), A, B)) / len(PAIRS) for alpha in (0.1, 0.5, 0.9)]
    assert shares[0] < 0.25
    assert 0.4 < shares[1] < 0.6
    assert shares[2] > 0.75


def test_between_the_ends_it_writes_neither_text_and_words_of_both(linda: Interpolator) -> None:
    texts = linda.mix(A, B, alpha=0.5)
    assert all(text not in pair for text, pair in zip(texts, PAIRS, strict=True))
    from_both = [
        bool(set(words(text)) & (set(words(a)) - set(words(b))))
        and bool(set(words(text)) & (set(words(b)) - set(words(a))))
        for text, (a, b) in zip(texts, PAIRS, strict=True)
    ]
    assert all(from_both)
    assert all({*words(text)} <= {*words(a), *words(b)} for text, (a, b) in zip(texts, PAIRS, strict=True))


def test_a_text_does_not_depend_on_the_rows_beside_it(linda: Interpolator) -> None:
    a = ["The cat sat on the mat.", "It rained all day.", "Who wrote this?", "We left.", "A long walk is a good thing."]
    b = [
        "Dogs bark.",
        "Where is the old river?",
        "Nobody knows what happened to the ship after it left.",
        "Why?",
        "No.",
    ]
    alpha = [0.4, 0.5, 0.6, 0.5, 0.3]
    assert linda.mix(a, b, alpha) == linda.mix(a, b, alpha, batch_tokens=1)


def test_its_ratio_needs_no_calibration(linda: Interpolator) -> None:
    assert linda.config.calibration == RAW
    for alpha in (0.3, 0.5, 0.7):
        assert sum(map(share_of_first, linda.mix(A, B, alpha), A, B)) / len(PAIRS) == pytest.approx(alpha, abs=0.1)


def test_real_sentences_read_better_than_shuffled_ones(linda: Interpolator) -> None:
    for real, shuffled in zip(
        linda.scores(A + B), linda.scores([" ".join(x.split()[::-1]) for x in A + B]), strict=True
    ):
        assert real > shuffled


@pytest.mark.parametrize(
    "text",
    [
        "naïve café — “quoted”…",
        "日本語のテキスト",
        "🙂🚀 emoji",
        "x = {'a': [1, 2]}  # code",
        "Ünïcödé ▁ and <mask> </s>",
    ],
)
def test_no_character_is_lost_in_the_tokenizer(linda: Interpolator, text: str) -> None:
    assert linda.tokens.texts([linda.tokens.ids(text)]) == [text]


def test_it_answers_without_hub_and_base(tmp_path: Path) -> None:
    """A separate process, without a cache."""
    command = [sys.executable, "-m", "linda", "interpolate", *PAIRS[0], "--alpha", "1"]
    environment = {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout == PAIRS[0][0] + "\n"
    assert result.stderr == ""
