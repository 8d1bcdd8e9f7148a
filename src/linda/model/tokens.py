"""Tokenization without importing `transformers`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Encoding, Tokenizer

from linda.errors import LindaError, reason, shortened
from linda.model.checkpoint import TOKENIZER_FILE, load_tokenizer

if TYPE_CHECKING:
    from linda.model import LindaModel


class Tokens:
    """Encodes and decodes texts exactly as the model's tokenizer in `transformers`, which takes seconds to import.

    A tokenizer that `tokenizers` does not support (Marian's SentencePiece) is used through `transformers`.
    """

    def __init__(self, tokenizer: Any) -> None:
        """Wrap a tokenizer of `tokenizers`, or one of `transformers` that is not based on it."""
        self._tokenizer = tokenizer

    @classmethod
    def from_folder(cls, folder: Path, vocabulary: int | None = None) -> Tokens:
        """Load the tokenizer of a model folder, and check that it fits a `vocabulary` of that size."""
        path = folder / TOKENIZER_FILE
        tokens = cls(_tokenizer(path) if path.is_file() else load_tokenizer(folder))
        if vocabulary is not None:
            tokens.check_fits(vocabulary, folder)
        return tokens

    def check_fits(self, vocabulary: int, folder: Path) -> None:
        """Raise an error if the tokenizer has ids that the model does not have."""
        largest = max(self._tokenizer.get_vocab().values(), default=-1)
        if not 0 <= largest < vocabulary:
            raise LindaError(
                f"{folder}: the tokenizer has ids up to {largest}, the model has {vocabulary} tokens; "
                "download the model again"
            )

    @classmethod
    def of(cls, model: LindaModel) -> Tokens:
        return cls(getattr(model.tokenizer, "backend_tokenizer", model.tokenizer))

    @cached_property
    def bytes(self) -> tuple[int, ...]:
        """Ids of the 256 byte tokens, if the vocabulary has byte fallback; else empty."""
        tokenizer = self._tokenizer
        if not isinstance(tokenizer, Tokenizer):
            return ()
        found = (tokenizer.token_to_id(f"<0x{byte:02X}>") for byte in range(256))
        return tuple(number for number in found if number is not None)

    def ids(self, text: str, masked: bool = False) -> tuple[int, ...]:
        """Return all token ids of a text, end marker included, without truncation.

        The mask token is recognized only with `masked`; otherwise special tokens are tokenized as plain text.
        """
        tokenizer = self._tokenizer
        if not isinstance(tokenizer, Tokenizer):
            return tuple(tokenizer(text, split_special_tokens=not masked, verbose=False)["input_ids"])
        return tuple(self._encoded(text, masked).ids)

    def _encoded(self, text: str, masked: bool) -> Encoding:
        # Set on every call: the file, or a model that shares this tokenizer, may have other settings.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = not masked
        try:
            return self._tokenizer.encode(text)
        except Exception as error:  # the vocabulary lacks a token for unknown characters
            raise LindaError(f"the model's tokenizer cannot encode {shortened(text)} ({reason(error)})") from error

    @cached_property
    def end(self) -> int:
        return self.ids("")[-1]

    def by_chunk(self, text: str, ends: Sequence[int]) -> list[list[int]]:
        """Return the token ids of a text by chunk, without special tokens.

        Args:
            text: Any text.
            ends: End of each chunk, in characters; white space belongs to the following chunk.

        Returns:
            One list per chunk; concatenated, they are the ids of the text.
        """
        tokenizer = self._tokenizer
        chunks: list[list[int]] = [[] for _ in ends]
        if not isinstance(tokenizer, Tokenizer):
            markers = frozenset(tokenizer.all_special_ids)
            for number, (start, end) in enumerate(pairwise([0, *ends])):
                chunks[number] = [token for token in self.ids(text[start:end].strip()) if token not in markers]
            return chunks
        encoding = self._encoded(text, masked=False)
        parts = zip(encoding.ids, encoding.offsets, encoding.special_tokens_mask, strict=True)
        for token, (_, end), is_marker in parts:
            if not is_marker:
                chunks[min(bisect_left(ends, end), len(ends) - 1)].append(token)
        return chunks

    def texts(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Decode ids to texts, without special tokens."""
        tokenizer = self._tokenizer
        if not isinstance(tokenizer, Tokenizer):
            return tokenizer.batch_decode(rows, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return [tokenizer.decode(row, skip_special_tokens=True) for row in rows]


def _tokenizer(path: Path) -> Tokenizer:
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # `tokenizers` raises a plain Exception for a damaged file
        raise LindaError(f"{path}: the tokenizer cannot be loaded ({reason(error)}); download it again") from error
