from collections.abc import Collection, Sequence
from pathlib import Path

import pytest
import torch

from linda import methods
from linda.engines.decoding import Decoding, Hypothesis
from linda.errors import LindaError
from linda.interpolation import Interpolator
from linda.methods.ssmba import Ssmba
from linda.model import LindaModel
from linda.model.tokens import Tokens
from tiny_encoder import save_tiny_bert

TEXT = "the film is good in the city of the man"


@pytest.fixture(scope="module")
def masked_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_bert(tmp_path_factory.mktemp("tiny") / "bert")


def write(method: Ssmba, texts: Sequence[str], seeds: Sequence[int]) -> list[str]:
    return method.texts(texts, None, None, seeds)


def test_only_a_share_of_the_tokens_is_resampled(masked_model: Path) -> None:
    changed = [
        sum(new != old for new, old in zip(text.split(), TEXT.split(), strict=True))
        for text in write(Ssmba(masked_model), [TEXT] * 300, range(300))
        if len(text.split()) == len(TEXT.split())  # a sampled piece of a word joins its neighbour
    ]
    assert len(changed) > 150
    assert 0.1 < sum(changed) / len(changed) / len(TEXT.split()) < 0.25
    assert max(changed) >= 3


def test_new_tokens_come_from_the_model(masked_model: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    model, tokenizer = AutoModelForMaskedLM.from_pretrained(masked_model), AutoTokenizer.from_pretrained(masked_model)
    with torch.no_grad():  # a model that is sure of one word, and even surer of a special token
        model.cls.predictions.bias[tokenizer.convert_tokens_to_ids("bad")] = 100.0
        model.cls.predictions.bias[tokenizer.sep_token_id] = 200.0
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert write(Ssmba(tmp_path, share=1.0), ["the film is good"], [0]) == ["bad bad bad bad"]


def test_rows_are_independent(masked_model: Path) -> None:
    method = Ssmba(masked_model)
    texts = [TEXT, "good", "what is the number of a city", TEXT]
    together = write(method, texts, [5, 6, 7, 8])
    assert together == [write(method, [text], [seed])[0] for text, seed in zip(texts, [5, 6, 7, 8], strict=True)]
    assert together[0] != together[3]


def test_long_texts_are_not_cut(masked_model: Path) -> None:
    long = ". ".join(["the film is good in the city"] * 20) + "."  # three times the window
    [text] = write(Ssmba(masked_model, share=0.01), [long], [0])
    assert 0.8 < len(text.split()) / len(long.split()) < 1.8


class _Echo:
    """An engine whose states are the ids, and which writes the ids it finds in them."""

    name = "echo"
    device = torch.device("cpu")
    batch_tokens = 4096

    def encode(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return ids[..., None].float()

    def decode(
        self,
        states: torch.Tensor,
        mask: torch.Tensor,
        decoding: Decoding,
        seeds: Sequence[int],
        pieces: Sequence[Collection[int]] | None = None,
    ) -> list[list[Hypothesis]]:
        assert decoding.sample
        return [
            [Hypothesis(row[: int(length)].long().tolist(), 0.0)]
            for row, length in zip(states[..., 0], mask.sum(1), strict=True)
        ]


def test_a_linda_model_sees_masked_words(tiny_model: LindaModel) -> None:
    echo = Interpolator(tiny_model.config, Tokens.of(tiny_model), tiny_model.converter, _Echo())
    method = Ssmba(echo, share=0.3)
    text = "the cat sat on the red dog"
    lengths = [len(new.split()) for new in write(method, [text] * 100, range(100))]
    # The mask is a token of its own, which is left out when ids become text again.
    assert max(lengths) < len(text.split())
    assert 0.55 < sum(lengths) / len(lengths) / len(text.split()) < 0.8


def test_a_linda_folder_is_known_as_such(tiny_model_folder: Path) -> None:
    method = methods.load("ssmba", model=tiny_model_folder)
    texts = ["the cat sat. " * 10, "who is the man"]
    together = method.texts(texts, None, None, [1, 2])
    assert together == [method.texts([text], None, None, [seed])[0] for text, seed in zip(texts, [1, 2], strict=True)]
    assert all(together)


def test_bad_settings(tmp_path: Path) -> None:
    with pytest.raises(LindaError, match="masks is 0"):
        Ssmba(tmp_path, share=0)
    with pytest.raises(LindaError, match="cannot be loaded as a masked language model"):
        Ssmba(tmp_path / "nothing")
