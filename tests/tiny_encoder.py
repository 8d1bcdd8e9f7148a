"""A BERT small enough to train inside a test: random weights, a vocabulary of whole words."""

from pathlib import Path

import torch

WORDS = [
    "who",
    "what",
    "where",
    "is",
    "the",
    "a",
    "of",
    "in",
    "good",
    "bad",
    "film",
    "city",
    "man",
    "number",
    "far",
]


def save_tiny_bert(folder: Path) -> Path:
    from transformers import BertConfig, BertForMaskedLM, BertTokenizer

    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *"abcdefghijklmnopqrstuvwxyz?.,"]
    (folder / "vocab.txt").write_text("\n".join(dict.fromkeys(vocabulary)) + "\n")
    BertTokenizer(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(dict.fromkeys(vocabulary)),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=48,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        BertForMaskedLM(config).save_pretrained(folder)
    return folder
