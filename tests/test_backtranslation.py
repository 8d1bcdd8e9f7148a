import re
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest
import torch

from linda import engines, methods
from linda.engines.decoding import Decoding, Hypothesis
from linda.errors import LindaError
from linda.methods.backtranslation import BackTranslation
from linda.model import LindaModel

TEXTS = ["the cat sat on the red dog", "who?", "where is the city"]


class _Exchange:
    """An engine for a language in which cats are dogs: translating there and back gives the same text."""

    name = "exchange"
    device = torch.device("cpu")
    batch_tokens = 4096

    def __init__(self, model: LindaModel) -> None:
        self._model = model
        self.heard: list[str] = []

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
        texts = self._model.detokenize(states[..., 0].long())
        self.heard += texts
        turned = [re.sub("cat|dog", lambda word: {"cat": "dog"}.get(word[0], "cat"), text) for text in texts]
        return [[Hypothesis(self._model.tokenizer(text)["input_ids"], 0.0)] for text in turned]


def test_a_text_goes_through_both_models(tiny_base_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[_Exchange] = []

    def engine(name: str, model: LindaModel) -> _Exchange:
        loaded.append(_Exchange(model))
        return loaded[-1]

    monkeypatch.setattr(engines, "load", engine)
    method = BackTranslation(tiny_base_folder, tiny_base_folder)
    assert method.texts(TEXTS, None, None, [1, 2, 3]) == TEXTS
    assert [TEXTS[0] in engine.heard for engine in loaded] == [True, False]
    assert "the dog sat on the red cat" in loaded[1].heard
    long = "the cat ran. a dog sat?\n\nthe man saw the city. " * 8 + "who"  # sentence by sentence, gaps kept
    assert method.texts([long], None, None, [0]) == [long]


def test_rows_are_independent_and_sampling_follows_the_seed(tiny_base_folder: Path) -> None:
    method = methods.load("backtranslation", there=tiny_base_folder, back=tiny_base_folder)
    assert isinstance(method, BackTranslation)
    for way in (method, method.sampling):
        together = way.texts(TEXTS, None, None, [1, 2, 3])
        assert together == [
            way.texts([text], None, None, [seed])[0] for text, seed in zip(TEXTS, [1, 2, 3], strict=True)
        ]
    assert method.texts(TEXTS, None, None, [1, 2, 3]) == method.texts(TEXTS, None, None, [7, 8, 9])
    assert method.sampling.texts(TEXTS, None, None, [1, 2, 3]) != method.sampling.texts(TEXTS, None, None, [7, 8, 9])


def test_missing_models(tmp_path: Path) -> None:
    with pytest.raises(LindaError, match=r"translation model .* cannot be loaded"):
        BackTranslation(tmp_path / "en-fr", tmp_path / "fr-en")
    with pytest.raises(LindaError, match="missing a required argument: 'there'"):
        methods.load("backtranslation")
