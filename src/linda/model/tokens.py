"""Text becomes token ids and ids become text again: what is needed to use a model, without `transformers`."""

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
    """The ids and texts that the model's tokenizer gives in `transformers`, only sooner: that takes seconds to import.

    A tokenizer that `tokenizers` does not know (Marian's own, of SentencePiece) is still asked through `transformers`.
    """

    def __init__(self, tokenizer: Any) -> None:
        """tokenizer: of `tokenizers`, or of `transformers` where it has none of those inside."""
        self._tokenizer = tokenizer

    @classmethod
    def from_folder(cls, folder: Path, vocabulary: int | None = None) -> Tokens:
        """The tokenizer of a model folder. vocabulary: how many pieces its model has."""
        path = folder / TOKENIZER_FILE
        tokens = cls(_tokenizer(path) if path.is_file() else load_tokenizer(folder))
        if vocabulary is not None:
            tokens.check_fits(vocabulary, folder)
        return tokens

    def check_fits(self, vocabulary: int, folder: Path) -> None:
        """Whether every id that may come out is one of the model's."""
        largest = max(self._tokenizer.get_vocab().values(), default=-1)
        if not 0 <= largest < vocabulary:
            raise LindaError(
                f"{folder}: the tokenizer has ids up to {largest}, the model has {vocabulary} pieces; "
                "fetch the model anew"
            )

    @classmethod
    def of(cls, model: LindaModel) -> Tokens:
        return cls(getattr(model.tokenizer, "backend_tokenizer", model.tokenizer))

    @cached_property
    def bytes(self) -> tuple[int, ...]:
        """The ids of the 256 bytes, of a vocabulary that writes rare characters so; none of any other."""
        tokenizer = self._tokenizer
        if not isinstance(tokenizer, Tokenizer):
            return ()
        found = (tokenizer.token_to_id(f"<0x{byte:02X}>") for byte in range(256))
        return tuple(number for number in found if number is not None)

    def ids(self, text: str, masked: bool = False) -> tuple[int, ...]:
        """All token ids of a text, however many, end marker included.

        Only a text that we masked ourselves may hold the mask token; in anybody else's a special token is plain
        characters.
        """
        tokenizer = self._tokenizer
        if not isinstance(tokenizer, Tokenizer):
            return tuple(tokenizer(text, split_special_tokens=not masked, verbose=False)["input_ids"])
        return tuple(self._encoded(text, masked).ids)

    def _encoded(self, text: str, masked: bool) -> Encoding:
        # Said at every call: the file may say otherwise, and so may the model that shares this tokenizer.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = not masked
        try:
            return self._tokenizer.encode(text)
        except Exception as error:  # of a vocabulary that lacks even the piece for what is unknown
            raise LindaError(f"the model's tokenizer cannot read {shortened(text)} ({reason(error)})") from error

    @cached_property
    def end(self) -> int:
        """The id of the end marker."""
        return self.ids("")[-1]

    def by_chunk(self, text: str, ends: Sequence[int]) -> list[list[int]]:
        """The token ids of a text, chunk by chunk, without markers.

        Args:
            text: any text.
            ends: where its chunks end, in characters; white space belongs to the chunk after it.

        Returns:
            One list per chunk: together, the ids of the text.
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
        """The texts of ids, special tokens left out."""
        tokenizer = self._tokenizer
        if not isinstance(tokenizer, Tokenizer):
            return tokenizer.batch_decode(rows, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return [tokenizer.decode(row, skip_special_tokens=True) for row in rows]


def _tokenizer(path: Path) -> Tokenizer:
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # `tokenizers` has no exception of its own for a damaged file
        raise LindaError(f"{path}: the tokenizer cannot be loaded ({reason(error)}); fetch it anew") from error
