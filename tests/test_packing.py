"""Texts packed end to end have the same states as alone."""

from pathlib import Path

import pytest
import torch

from linda.classifier import encoder as encoder_module
from linda.classifier.encoder import SentenceEncoder
from linda.classifier.packing import _lines, pack
from tiny_encoder import save_tiny_bert

TEXTS = ["good", "the film is good in the city of the man", "a bad man", "what is the number of the city", "far " * 20]


def tiny_encoder(folder: Path, family: str) -> SentenceEncoder:
    """Of any family, with BERT's tokenizer (no unknown words: MPNet takes its number for padding)."""
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(save_tiny_bert(folder))
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = AutoConfig.for_model(
        family, vocab_size=len(tokenizer), max_position_embeddings=64, pad_token_id=tokenizer.pad_token_id, **sizes
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return SentenceEncoder(AutoModel.from_config(config), tokenizer, 48).eval()


@pytest.mark.parametrize("family", ["bert", "mpnet", "roberta", "xlm-roberta"])
@pytest.mark.parametrize("is_pair", [False, True])
def test_packed_texts_have_the_vectors_of_padded_ones(
    tmp_path: Path, family: str, is_pair: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_encoder(tmp_path / "bert", family)
    rows = model.tokenize(TEXTS, list(reversed(TEXTS)) if is_pair else None)
    if family != "bert":
        rows = [{"input_ids": row["input_ids"]} for row in rows]
    with torch.no_grad(), model.narrowed(TEXTS):
        packed = model(rows)
        monkeypatch.setattr(encoder_module, "_TOKENS_TO_PACK", 0)
        padded = model(rows)
    torch.testing.assert_close(packed, padded, atol=1e-5, rtol=1e-4)
    assert (packed[0] - packed[1]).abs().max() > 0.01  # texts do differ


def test_every_token_is_there_once() -> None:
    texts = [{"input_ids": torch.arange(1, length + 1)} for length in (30, 50, 10, 20, 1)]
    packed = pack(texts, padding=0)
    assert packed.text.shape == (2, 61)
    for number, text in enumerate(texts):
        assert packed.values["input_ids"][packed.text == number].tolist() == text["input_ids"].tolist()
        assert packed.position[packed.text == number].tolist() == list(range(len(text["input_ids"])))
    assert packed.values["input_ids"][packed.text < 0].sum() == 0


def test_lines_are_filled_and_as_long_as_the_longest_text() -> None:
    assert _lines([30, 50, 10, 20, 1]) == [[1, 2, 4], [0, 3]]
    assert _lines([100, 60, 40, 3]) == [[0], [1, 2], [3]]
    assert _lines([5]) == [[0]]
