"""A vectorized trigram language model with stupid backoff (Brants et al. 2007).

    p(w | u v) = c(u v w) / c(u v)        if the trigram was seen,
                 0.4 · p(w | v)           else,
    p(w | v)   = c(v w) / c(v)            if the bigram was seen,
                 0.4 · c(w) / N           else.

Counts are exact. Keys are stored in sorted arrays, so that one `searchsorted` answers thousands of queries.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from linda.crossovers.cuts import IntArray
from linda.crossovers.search import FloatArray
from linda.errors import LindaError
from linda.files.paths import check_regular_file
from linda.files.textio import atomic_path

START, END, UNKNOWN = 0, 1, 2
_SPECIAL = ("<s>", "</s>", "<unk>")
_BITS = 21  # bits per word id: three ids fit into a 64-bit key
_BACKOFF = np.log(0.4)
_TOKEN = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")


def tokens_of(text: str) -> list[str]:
    """Split a text into case-folded words and punctuation marks."""
    return _TOKEN.findall(text.casefold())


@dataclass(frozen=True)
class _Counts:
    """Keys in ascending order, and their counts."""

    keys: IntArray
    counts: NDArray[np.int32]

    def __call__(self, queries: IntArray) -> FloatArray:
        if not len(self.keys):
            return np.zeros(queries.shape)
        places = np.searchsorted(self.keys, queries.ravel()).clip(max=len(self.keys) - 1)
        found = np.where(self.keys[places] == queries.ravel(), self.counts[places], 0)
        return found.reshape(queries.shape).astype(float)


class TrigramModel:
    """Log-probabilities of words in context."""

    def __init__(self, vocabulary: Sequence[str], unigrams: NDArray[np.int64], bigrams: _Counts, trigrams: _Counts):
        self.vocabulary = vocabulary
        self._numbers = {word: number for number, word in enumerate(vocabulary)}
        self._unigrams, self._bigrams, self._trigrams = unigrams, bigrams, trigrams
        self._log_unigrams = np.log(np.maximum(unigrams, 1) / unigrams.sum())

    def ids(self, words: Sequence[str]) -> IntArray:
        """Return the ids of words; all unknown words share one."""
        return np.array([self._numbers.get(word, UNKNOWN) for word in words], dtype=np.int64)

    def log_unigram(self, w: IntArray) -> FloatArray:
        return self._log_unigrams[w]

    def log_trigram(self, u: IntArray, v: IntArray, w: IntArray) -> FloatArray:
        """Return log p(w | u v) for word ids of any shapes that broadcast."""
        u, v, w = np.broadcast_arrays(u, v, w)
        context_bigram, context_unigram = self._bigrams((u << _BITS) | v), self._unigrams[v]
        bigram, trigram = self._bigrams((v << _BITS) | w), self._trigrams((((u << _BITS) | v) << _BITS) | w)
        with np.errstate(divide="ignore", invalid="ignore"):
            by_trigram = np.log(trigram / context_bigram)
            by_bigram = np.log(bigram / context_unigram) + _BACKOFF
        backed_off = np.where(bigram > 0, by_bigram, self.log_unigram(w) + 2 * _BACKOFF)
        return np.where((trigram > 0) & (context_bigram > 0), by_trigram, backed_off)

    @classmethod
    def build(
        cls,
        sentences: Iterable[str],
        *,
        min_word_count: int = 3,
        min_trigram_count: int = 2,
        progress: bool = False,
    ) -> TrigramModel:
        """Count the words, bigrams and trigrams of sentences.

        Args:
            sentences: Plain sentences.
            min_word_count: Minimum count of a word; rarer words are replaced by the unknown word.
            min_trigram_count: Minimum count of a trigram; rarer trigrams are dropped, to save memory.
            progress: Show a progress bar.

        Returns:
            The model.

        Example:
            >>> TrigramModel.build(read_sentences("sentences.txt.xz")).save("trigrams.safetensors")
        """
        first_seen: dict[str, int] = {}
        chunks: list[NDArray[np.int32]] = []
        lengths: list[NDArray[np.int32]] = []
        with tqdm(sentences, desc="counting words", unit="sentence", disable=not progress) as stream:
            left = iter(stream)
            while batch := list(itertools.islice(left, 20_000)):
                tokens = [tokens_of(sentence) for sentence in batch]
                flat = itertools.chain.from_iterable(tokens)
                chunks.append(
                    np.fromiter((first_seen.setdefault(word, len(first_seen)) for word in flat), dtype=np.int32)
                )
                lengths.append(np.fromiter(map(len, tokens), dtype=np.int32))
        if not chunks:
            raise LindaError("the corpus contains no sentence; give a file with one sentence per line")
        words, lengths_all = np.concatenate(chunks), np.concatenate(lengths)
        del chunks
        counts = np.bincount(words, minlength=len(first_seen))
        by_count = np.argsort(-counts, kind="stable")
        kept = by_count[counts[by_count] >= min_word_count][: (1 << _BITS) - len(_SPECIAL)]
        numbers = np.full(len(first_seen), UNKNOWN, dtype=np.int64)
        numbers[kept] = np.arange(len(kept)) + len(_SPECIAL)
        spelled = list(first_seen)
        vocabulary = [*_SPECIAL, *(spelled[i] for i in kept)]
        run = _with_markers(numbers[words], lengths_all)
        unigrams = np.bincount(run, minlength=len(vocabulary))
        pairs = (run[:-1] << _BITS) | run[1:]
        bigrams = _count(pairs, 1)
        trigrams = _count((pairs[:-1] << _BITS) | run[2:], min_trigram_count)
        return cls(vocabulary, unigrams, bigrams, trigrams)

    def save(self, path: str | Path) -> None:
        """Write a safetensors file."""
        from safetensors.numpy import save_file

        arrays: dict[str, NDArray[Any]] = {
            "unigrams": self._unigrams,
            "bigram_keys": self._bigrams.keys,
            "bigram_counts": self._bigrams.counts,
            "trigram_keys": self._trigrams.keys,
            "trigram_counts": self._trigrams.counts,
            "vocabulary": np.frombuffer("\n".join(self.vocabulary).encode(), dtype=np.uint8),
        }
        with atomic_path(Path(path)) as part:
            save_file(arrays, part, metadata={"format": "linda-trigrams", "settings": json.dumps({"bits": _BITS})})

    @classmethod
    def load(cls, path: str | Path) -> TrigramModel:
        """Read a file written by `save`."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        check_regular_file(path)
        try:
            arrays = load_file(path)
            vocabulary = arrays["vocabulary"].tobytes().decode().split("\n")
            bigrams = _Counts(arrays["bigram_keys"], arrays["bigram_counts"])
            trigrams = _Counts(arrays["trigram_keys"], arrays["trigram_counts"])
            unigrams = arrays["unigrams"]
            if unigrams.shape != (len(vocabulary),) or not unigrams.sum() > 0:
                raise ValueError("the numbers of words and counts differ")
            for counted in (bigrams, trigrams):
                if counted.keys.shape != counted.counts.shape or counted.keys.ndim != 1:
                    raise ValueError("the numbers of keys and counts differ")
            return cls(vocabulary, unigrams, bigrams, trigrams)
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise LindaError(f"{path} is not an n-gram table; build one with `linda middles table`") from error


def _with_markers(words: IntArray, lengths: NDArray[np.int32]) -> IntArray:
    """Concatenate sentences, each as <s> <s> w₁ … wₙ </s>."""
    ends = np.cumsum(lengths + 3)
    run = np.full(int(ends[-1]), START, dtype=np.int64)
    run[ends - 1] = END
    is_word = np.ones(len(run), dtype=bool)
    is_word[ends - 1] = False
    starts = ends - lengths - 3
    is_word[starts] = is_word[starts + 1] = False
    run[is_word] = words
    return run


def _count(keys: IntArray, at_least: int) -> _Counts:
    ordered = np.sort(keys)
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    counts = np.diff(np.append(first, len(ordered)))
    frequent = counts >= at_least
    return _Counts(ordered[first[frequent]], counts[frequent].astype(np.int32))
