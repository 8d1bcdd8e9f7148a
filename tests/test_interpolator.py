"""Texts in, texts out: the output depends only on the row and the model, and nothing is computed twice."""

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from linda import engines
from linda.engines.decoding import Hypothesis, generate
from linda.errors import LindaError
from linda.interpolation import Interpolator
from linda.interpolation.encoded_texts import EncodedTexts
from linda.model import LindaModel, checkpoint

A = ["the cat sat on the old red river.", "who is the man?", "a dog ran in the city.", "what is a woman?"]
B = ["where is the small city?", "a woman saw the river and the old man.", "the cat.", "the dog and a cat sat."]
ALPHA = [0.0, 0.3, 0.5, 1.0]


@pytest.fixture(scope="module")
def linda(tiny_model_folder: Path) -> Interpolator:
    return Interpolator.from_pretrained(tiny_model_folder, device="cpu", engine="torch")


def test_strings_give_a_string_and_lists_a_list(linda: Interpolator) -> None:
    texts = linda.mix(A, B, ALPHA)
    assert len(texts) == len(A)
    assert all(isinstance(text, str) for text in texts)
    assert linda.mix(A[1], B[1], 0.3) == texts[1]
    assert linda.mix(A, B, 0.3)[1] == texts[1]


def test_candidates(linda: Interpolator) -> None:
    candidates = linda.mix(A[1], B[1], 0.3, n=3, copies=True)
    assert len(set(candidates)) == 3
    assert candidates[0] == linda.mix(A[1], B[1], 0.3, copies=True)
    assert linda.mix(A, B, 0.3, n=3, copies=True)[1] == candidates


def test_the_text_is_what_the_model_itself_generates(linda: Interpolator, tiny_model: LindaModel) -> None:
    for a, b, alpha, text in zip(A, B, ALPHA, linda.mix(A, B, ALPHA, raw=True), strict=True):
        with torch.no_grad():
            ids = generate(tiny_model, *tiny_model.mix_texts([a], [b], alpha))
        assert text == tiny_model.detokenize(ids)[0]


@pytest.mark.parametrize("settings", [{}, {"sample": True, "temperature": 0.7}])
def test_same_texts_at_any_batch_size(linda: Interpolator, settings: dict) -> None:
    a, b, alpha = A + A, B + B[::-1], [step / 7 for step in range(8)]
    expected = linda.mix(a, b, alpha, batch_tokens=100, **settings)
    for batch_tokens in (1, 100_000):
        assert linda.mix(a, b, alpha, batch_tokens=batch_tokens, **settings) == expected


def test_each_distinct_text_is_encoded_once(copier: Interpolator, monkeypatch: pytest.MonkeyPatch) -> None:
    encode, encoded = copier.engine.encode, []

    def counting(ids, mask):
        encoded.extend(row[real.bool()].tolist() for row, real in zip(ids, mask, strict=True))
        return encode(ids, mask)

    monkeypatch.setattr(copier.engine, "encode", counting)
    ladder = [step / 10 for step in range(11)]
    rows = list(itertools.product(A, B, ladder))
    # Chunks of one row each: states of the first chunks are still cached for the last.
    copier.mix(*(list(column) for column in zip(*rows, strict=True)), batch_tokens=1)
    assert sorted(map(tuple, encoded)) == sorted(copier.tokens.ids(text) for text in A + B)


def test_what_is_remembered_is_bounded(copier: Interpolator) -> None:
    encoded = copier.encoded_texts(batch_tokens=64, max_tokens=30)
    texts = [copier.tokens.ids(text) for text in A + B]
    for text in texts:
        assert encoded([text])[text].argmax(dim=-1).tolist() == list(text)
        assert sum(map(len, encoded._states)) <= 30
    assert texts[-1] in encoded._states
    assert texts[0] not in encoded._states
    assert set(encoded(texts)) == set(texts)  # one request may exceed the size of the cache


def test_padding_does_not_show_in_states(linda: Interpolator, tiny_model: LindaModel) -> None:
    with torch.inference_mode():
        together = EncodedTexts(linda.engine, 0, 4096)([linda.tokens.ids(text) for text in A])
        for text in A:
            alone = tiny_model.encode(**tiny_model.tokenize([text]))[0]
            torch.testing.assert_close(together[linda.tokens.ids(text)], alone)


def test_the_engine_is_told_the_pieces_of_both_texts(copier: Interpolator) -> None:
    copier.mix(A[0], B[0], 0.5)
    assert [set(row) for row in copier.engine.pieces] == [{*copier.tokens.ids(A[0]), *copier.tokens.ids(B[0])}]


def test_no_global_random_state_is_touched(linda: Interpolator) -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    first = linda.mix(A, B, 0.5, sample=True, seed=7)
    torch.manual_seed(123)
    again = linda.mix(A, B, 0.5, sample=True, seed=7)
    torch.set_rng_state(before[0])
    linda.mix(A, B, 0.5, sample=True, seed=7)
    assert first == again
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])
    assert before[2] == random.getstate()


def test_seeds(linda: Interpolator) -> None:
    drawn = linda.mix([A[0]] * 3, [B[0]] * 3, 0.5, sample=True)
    assert len(set(drawn)) == 3  # equal rows are sampled independently
    assert linda.mix([A[0]] * 2, [B[0]] * 2, 0.5, sample=True) == drawn[:2]
    assert linda.mix([A[0]] * 3, [B[0]] * 3, 0.5, sample=True, seed=1) != drawn
    assert linda.mix(A, B, 0.5, seed=1) == linda.mix(A, B, 0.5, seed=2)  # beam search does not sample


def test_calibration_is_exact_at_the_ends_and_off_when_raw(copier: Interpolator, monkeypatch) -> None:
    mixed: list[float] = []
    mix = copier.converter.mix
    monkeypatch.setattr(copier.converter, "mix", lambda *args: (mixed.extend(args[4].tolist()), mix(*args))[1])
    copier.config.calibration = [(0.0, 0.0), (0.5, 0.4), (1.0, 1.0)]
    for alpha in (0.0, 0.25, 0.5, 1.0):
        copier.mix(A[0], B[0], alpha)
        copier.mix(A[0], B[0], alpha, raw=True)
    assert mixed == pytest.approx([0.0, 0.0, 0.2, 0.25, 0.4, 0.5, 1.0, 1.0])


@pytest.mark.parametrize(
    "text", ["the 🦋 and 漢字 </s> <mask> <pad> é e\u0301", "x = [1]\n\ty  = 2", " a\u200bb\u00a0 ", "\x00"]
)
def test_any_unicode_comes_back_unchanged(copier: Interpolator, text: str) -> None:
    copier.config.max_length = 64
    assert copier.mix(text, "the cat", 1.0) == text
    assert copier.mix("the cat", text, 0.0) == text


LONG = (
    "The cat sat. A dog ran in the city!\n\nWho saw the old man on the river? She did. 「漢字。」It was the small one."
)


def test_a_long_text_is_not_cut(copier: Interpolator) -> None:
    assert len(copier.tokens.ids(LONG)) > copier.config.max_length
    for other in ("the cat", LONG[::-1], "x" * 300, "one. " * 50):
        assert copier.mix(LONG, other, 1.0) == LONG
        assert copier.mix(other, LONG, 0.0) == LONG


def test_words_without_end_and_words_beyond_the_window(copier: Interpolator) -> None:
    for text in ("the old cat saw a dog and " * 20 + "ran", "x" * 300, "漢字" * 100):
        assert copier.mix(text, "the cat", 1.0) == text


def test_the_number_of_sentences_follows_the_ratio(copier: Interpolator) -> None:
    a, b = " ".join(["the cat sat."] * 10), " ".join(["a dog ran?"] * 3)
    # ⌈0.3·10 + 0.7·3⌉ = 6; ⌈0.1·10 + 0.9·3⌉ = 4; 0.7·10 + 0.3·3 = 7.9
    for alpha, count in ((0.0, 3), (0.1, 4), (0.3, 6), (0.7, 8), (1.0, 10)):
        text = copier.mix(a, b, alpha, raw=True)
        assert text.count(".") + text.count("?") == count


def test_long_and_short_rows_stay_in_order_and_have_their_own_seeds(copier: Interpolator) -> None:
    rows = [("the cat", "a dog", 1.0, 11), (LONG, "a dog", 1.0, 12), ("a man", LONG, 0.0, 13), ("who", "a", 1.0, 14)]
    assert [texts[0] for texts in copier.mix_stream(rows, batch_tokens=1)] == ["the cat", LONG, LONG, "who"]
    assert len(set(copier.engine.seeds)) == len(copier.engine.seeds) > len(rows)
    assert {11, 14} < set(copier.engine.seeds)
    assert not {12, 13} & set(copier.engine.seeds)


def test_long_texts_have_candidates_too(linda: Interpolator) -> None:
    candidates = linda.mix(LONG, A[0], 0.6, n=3)
    assert len(candidates) == 3
    assert candidates[0] == linda.mix(LONG, A[0], 0.6)


def test_the_stream_takes_rows_as_it_needs_them(copier: Interpolator) -> None:
    taken = itertools.count()
    last = -1

    def endless() -> Iterator[tuple[str, str, float, int]]:
        nonlocal last
        while True:
            last = next(taken)
            yield "the cat", f"{last} dog", 0.0, last

    stream = copier.mix_stream(endless(), batch_tokens=64)
    assert [next(stream)[0] for _ in range(300)] == [f"{row} dog" for row in range(300)]
    assert last < 600


def test_progress_is_told_row_by_row(copier: Interpolator) -> None:
    told: list[int] = []
    rows = [("the cat", LONG, 0.5, 1)] * 5
    list(copier.mix_stream(rows, batch_tokens=8, on_progress=told.append))
    assert sum(told) == 5
    assert len(told) > 2


def test_progress_bar_only_when_asked_for(copier: Interpolator, capfd: pytest.CaptureFixture[str]) -> None:
    copier.mix(A, B, 0.5)
    assert capfd.readouterr().err == ""
    copier.mix(A, B, 0.5, progress=True)
    bar = capfd.readouterr().err
    assert "4/4" in bar
    assert bar.lstrip("\r").startswith("read-back:")  # the name of the engine


def test_nothing_gives_nothing(linda: Interpolator) -> None:
    assert linda.mix([], [], 0.5) == []


NAN = float("nan")


@pytest.mark.parametrize(
    ("a", "b", "alpha", "message"),
    [
        ("", "b", 0.5, "text a is empty"),
        ("a", " \n", 0.5, "text b is empty"),
        ("a", None, 0.5, "one of each"),
        ("a", ["b"], 0.5, "one of each"),
        ("a", "b", 1.5, "alpha is 1.5; it must lie between 0"),
        ("a", "b", NAN, "alpha is nan; it must lie between 0"),
        ("a", "b", "half", "alpha is 'half', not a number"),
        ("a", "b", None, "alpha is None, not a number"),
        ("a", "b", [0.1, 0.2], "1 texts a, 1 texts b, 2 ratios"),
        (["a", "a"], ["b"], 0.5, "2 texts a, 1 texts b"),
        (["a", "a"], ["b", "b"], [0.5], "2 texts b, 1 ratios"),
        (["a", "a"], ["b", 3], 0.5, "text b of pair 2 is 3, not a text"),
        (["a", "a"], ["b", "b"], [0.5, -0.1], "alpha of pair 2 is -0.1"),
        (["a", "a\ud800"], ["b", "b"], 0.5, "text a of pair 2 contains a lone surrogate at position 2"),
    ],
)
def test_bad_input_is_named(copier: Interpolator, a, b, alpha, message: str) -> None:
    with pytest.raises(LindaError) as caught:
        copier.mix(a, b, alpha)
    assert message in str(caught.value)
    assert copier.engine.rows == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beam": 3}, "no decoding setting 'beam'; choose from beams"),
        ({"beams": 0}, "beams is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"batch_tokens": 0}, "batch_tokens is 0"),
    ],
)
def test_bad_settings_are_named(copier: Interpolator, settings: dict, message: str) -> None:
    with pytest.raises(LindaError, match=message):
        copier.mix("a", "b", **settings)


def test_bad_settings_of_a_stream_are_told_at_once(copier: Interpolator) -> None:
    with pytest.raises(LindaError, match="no decoding setting"):
        copier.mix_stream([], beam=3)


def test_no_embedded_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(checkpoint, "EMBEDDED", tmp_path / "none")
    with pytest.raises(LindaError, match="no embedded model; train one with `linda train`"):
        Interpolator.from_pretrained()


def test_the_embedded_model_is_the_default(monkeypatch: pytest.MonkeyPatch, tiny_model_folder: Path) -> None:
    monkeypatch.setattr(checkpoint, "EMBEDDED", tiny_model_folder)
    assert Interpolator.from_pretrained().config.max_length == 24


@pytest.mark.parametrize("engine", engines.NAMES)
def test_a_model_in_memory_writes_what_its_folder_does(
    tiny_model: LindaModel, tiny_model_folder: Path, engine: str
) -> None:
    stored = Interpolator.from_pretrained(tiny_model_folder, device="cpu", engine=engine)
    held = Interpolator.of(tiny_model, engine)
    assert stored.engine.name == held.engine.name == engine
    assert stored.mix(A, B, ALPHA) == held.mix(A, B, ALPHA)


def test_unknown_device_and_engine(tiny_model_folder: Path) -> None:
    with pytest.raises(LindaError, match="device 'abacus' is not available"):
        Interpolator.from_pretrained(tiny_model_folder, device="abacus")
    with pytest.raises(LindaError, match="'steam'"):
        Interpolator.from_pretrained(tiny_model_folder, engine="steam")


def test_an_engine_that_finds_its_limit_gets_smaller_batches(
    copier: Interpolator, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    decode = copier.engine.decode

    def shrinking(states, *others) -> list[list[Hypothesis]]:
        sizes.append(len(states))
        copier.engine.batch_tokens = 64
        return decode(states, *others)

    monkeypatch.setattr(copier.engine, "batch_tokens", 256, raising=False)
    monkeypatch.setattr(copier.engine, "decode", shrinking)
    texts = ["the cat sat"] * 1600
    assert copier.mix(texts, texts, 0.5, copies=True) == texts
    assert sizes[0] == 4
    assert sizes[-1] == 1
