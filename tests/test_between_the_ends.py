"""Texts between the two ends: no copies, no loops and no invalid characters."""

from pathlib import Path

import pytest
import torch

from linda.engines.decoding import Decoding, Hypothesis
from linda.interpolation import Interpolator, between
from linda.interpolation.between import Kind
from linda.model import LindaModel
from linda.model.tokens import Tokens


def test_nothing_loops(tiny_model_folder: Path) -> None:
    """An untrained model repeats one word, as beam search does where a model is uncertain."""
    linda = Interpolator.from_pretrained(tiny_model_folder, device="cpu", engine="torch")
    texts = "who is the man?", "a woman saw the river and the old man."
    assert "red " * 8 in linda.mix(*texts, 0.3, copies=True)
    assert "red " * 8 not in linda.mix(*texts, 0.3)
    for end in (0.0, 1.0):
        assert linda.mix(*texts, end) == linda.mix(*texts, end, copies=True)


def test_broken_characters_are_left_out_where_every_text_has_them() -> None:
    assert between.without_broken("the river \ufffd\ufffd is \ufffdold") == "the river is old"
    assert between.without_broken("two  spaces stay") == "two  spaces stay"


def test_bytes_are_written_only_where_a_text_has_some(copier: Interpolator) -> None:
    byte = copier.tokens.bytes
    assert len(byte) == 256
    plain, rare = ({*copier.tokens.ids(text)} for text in ("the cat sat", "the cat sat 漢"))
    assert between.kind_of(0.5, "the cat sat", "who is it", plain, byte) == Kind.BETWEEN
    assert between.kind_of(0.5, "the cat sat 漢", "who is it", rare, byte) == Kind.BETWEEN_WITH_BYTES
    settings = between.decoding_by_kind(Decoding(withheld=(7,)), byte)
    assert settings[Kind.BETWEEN].withheld == (7, *byte)
    assert settings[Kind.BETWEEN_WITH_BYTES].withheld == settings[Kind.END].withheld == (7,)


def test_words_are_counted_in_any_script() -> None:
    """A share of 0.3 of six characters is nearly two, so this is not an end."""
    assert not between.is_negligible(0.3, ("東京は大都市", "猫"))
    assert not between.is_negligible(0.3, ("the cat sat", "who"))
    assert between.is_negligible(0.1, ("the cat sat", "who"))


def test_broken_characters_come_last() -> None:
    assert between.is_unwanted("What is \ufffd?", ())
    assert between.is_unwanted("The cat  sat", ("the cat sat",))
    assert not between.is_unwanted("What is é?", ("the cat sat",))


class _EngineOfCopies:
    """Ranks the first text best, then the second, then another, as a well-trained model does at 0.5."""

    name = "copies"
    device = torch.device("cpu")
    batch_tokens = 4096

    def __init__(self, model: LindaModel) -> None:
        texts = ["the cat sat", "The dog ran", "the cat ran", "the dog sat"]
        self.hypotheses = [
            Hypothesis(ids, -float(rank)) for rank, ids in enumerate(model.tokenizer(texts)["input_ids"])
        ]

    def encode(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.zeros(*ids.shape, 4)

    def decode(
        self, states, mask, decoding: Decoding, seeds, pieces, prior=None, lengths=None
    ) -> list[list[Hypothesis]]:
        return [self.hypotheses[: decoding.n] for _ in states]


class TestCopies:
    A, B = "the cat sat", "the dog ran"

    @pytest.fixture
    def linda(self, tiny_model: LindaModel) -> Interpolator:
        engine = _EngineOfCopies(tiny_model)
        return Interpolator(tiny_model.config, Tokens.of(tiny_model), tiny_model.converter, engine)

    def test_the_likeliest_text_that_is_neither_comes_out(self, linda: Interpolator) -> None:
        assert linda.mix(self.A, self.B) == "the cat ran"

    def test_candidates_that_are_copies_come_last(self, linda: Interpolator) -> None:
        assert linda.mix(self.A, self.B, n=3) == ["the cat ran", "the dog sat", "the cat sat"]

    def test_between_two_equal_texts_a_copy_is_right(self, linda: Interpolator) -> None:
        assert linda.mix(self.A, "The  cat sat") == self.A

    def test_the_papers_way_takes_the_likeliest(self, linda: Interpolator) -> None:
        assert linda.mix(self.A, self.B, raw=True) == "the cat sat"
        assert linda.mix(self.A, self.B, copies=True) == "the cat sat"
        assert linda.mix(self.A, self.B, raw=True, copies=False) == "the cat ran"

    @pytest.mark.parametrize("alpha", [0.0, 0.1, 0.9, 1.0])
    def test_at_an_end_a_copy_is_right(self, linda: Interpolator, alpha: float) -> None:
        """A tenth of three words is less than half a word."""
        assert linda.mix(self.A, self.B, alpha) == "the cat sat"
