"""The sentences of a corpus: files and shares, endless epochs, masking and changes of style."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from linda.errors import LindaError, checked_text, reason
from linda.files.textio import open_text

Rng = np.random.Generator

_RANDOM_STREAMS = {"draw": 0, "window": 1, "alpha": 2}  # one independent stream of numbers per purpose


def purpose_stream(purpose: str, *key: int) -> Rng:
    return np.random.default_rng([_RANDOM_STREAMS[purpose], *key])


@dataclass
class Corpus:
    """Plain sentences: `main` files are read in sequence; each `mixed_in` file provides a share of all sentences.

    A file is .txt (one sentence per line, optionally after a label and a tab) or .jsonl (field `text`), plain, .gz or
    .xz; `hub:NAME` is the split `train` of a data set on the Hugging Face hub, which is streamed.
    """

    main: list[str]
    mixed_in: dict[str, float] = field(default_factory=dict)
    held_out: int = 0  # sentences at the beginning of the main files that are not trained on

    @classmethod
    def parse(cls, sources: Iterable[str]) -> Corpus:
        """Parse sources: `FILE` is a main file; `FILE=0.25` is mixed in, and provides a quarter of all sentences."""
        corpus = cls([])
        for source in sources:
            name, share = name_and_share(source)
            if share is None:
                corpus.main.append(name)
            elif name in corpus.mixed_in:
                raise LindaError(f"corpus {source!r}: {name!r} already has a share; give each file once")
            else:
                corpus.mixed_in[name] = share
        if not corpus.main:
            raise LindaError("the corpus has no file without a share; give at least one")
        shares = list(corpus.mixed_in.values())
        if not all(0 < share < 1 for share in shares) or sum(shares) >= 1:
            listed = ", ".join(f"{share:g}" for share in shares)
            raise LindaError(f"the shares of mixed-in files are {listed}; each must be above 0 and their sum below 1")
        return corpus

    def check_readable(self) -> None:
        """Raise an error before training if a source has no sentences."""
        for name in (*self.main, *self.mixed_in):
            if next(read_sentences(name), None) is None:
                raise LindaError(f"{name} contains no sentence; give a file with one sentence per line")

    def hold_out(self, count: int) -> list[str]:
        """Exclude the first sentences of the main files from training, and return them."""
        self.held_out = count
        return list(itertools.islice(self._main_sentences(), count))

    def _main_sentences(self) -> Iterator[str]:
        return itertools.chain.from_iterable(map(read_sentences, self.main))

    def epochs(self, seed: int) -> Iterator[Iterator[str]]:
        """Yield endless epochs: each has every sentence of the main files once, with mixed-in sentences in between.

        Each epoch continues the mixed-in files where the previous one stopped, so that all of their sentences are used.
        """
        others = [_endless(name) for name in self.mixed_in]
        for epoch in itertools.count():
            yield self._epoch(others, purpose_stream("draw", seed, epoch))

    def _epoch(self, others: list[Iterator[str]], rng: Rng) -> Iterator[str]:
        main = itertools.islice(self._main_sentences(), self.held_out, None)
        if not others:
            yield from main
            return
        bounds = np.cumsum(list(self.mixed_in.values()))
        while True:
            source = int(np.searchsorted(bounds, rng.random(), side="right"))
            try:
                yield next(others[source] if source < len(others) else main)
            except StopIteration:
                return


def name_and_share(source: str) -> tuple[str, float | None]:
    """Split `FILE=0.25` into file and share; a file name with an equals sign (`lang=en.txt`) has no share."""
    name, equals, share = source.rpartition("=")
    try:
        return (name, float(share)) if equals and name else (source, None)
    except ValueError:
        return source, None


def read_sentences(name: str) -> Iterator[str]:
    """Yield the sentences of a file or (`hub:NAME`) of a data set on the hub."""
    if name.startswith("hub:"):
        yield from _hub_sentences(name.removeprefix("hub:"))
        return
    suffixes = Path(name).suffixes
    if table := {".csv", ".tsv", ".parquet"} & set(suffixes):
        raise LindaError(f"{name}: {table.pop()} is a table; give plain lines (.txt), or .jsonl with a field 'text'")
    is_json = bool({".jsonl", ".ndjson"} & set(suffixes))
    with open_text(name) as lines:
        for number, line in enumerate(lines, start=1):
            text = _json_text(line, name, number) if is_json else line.rpartition("\t")[2]
            if text := text.strip():
                yield text


def _json_text(line: str, name: str, number: int) -> str:
    if not line.strip():
        return ""
    try:
        text = json.loads(line)["text"]
        if not isinstance(text, str):
            raise TypeError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise LindaError(f"{name}, line {number}: not a JSON object with a text in its field 'text'") from None
    return checked_text(text, f"{name}, line {number}: 'text'") if text.strip() else ""


def _hub_sentences(name: str) -> Iterator[str]:
    from datasets import load_dataset

    try:
        rows = load_dataset(name, split="train", streaming=True)
    except Exception as error:  # the hub, the network and the files raise various exceptions
        raise LindaError(f"the data set {name!r} cannot be read ({reason(error)}); give a file") from error
    for row in rows:
        if text := str(row.get("text", "")).strip():
            yield text


def _endless(name: str) -> Iterator[str]:
    while True:
        sentence = None
        for sentence in read_sentences(name):
            yield sentence
        if sentence is None:
            raise LindaError(f"{name} contains no sentence; give a file with one sentence per line")


def mask_words(text: str, probability: float, mask_token: str, rng: Rng) -> str:
    """Replace each whitespace-separated word by the mask token with the given probability, independently (§3.3).

    White space between words is kept.
    """
    parts = re.split(r"(\s+)", text)  # words alternating with gaps; a gap at an end yields an empty word there
    words = [index for index in range(0, len(parts), 2) if parts[index]]
    for index, is_masked in zip(words, rng.random(len(words)) < probability, strict=True):
        if is_masked:
            parts[index] = mask_token
    return "".join(parts)


# Emoji, CJK, kana, Cyrillic, Greek, arrows and mathematics, ASCII's symbols.
_RARE_BLOCKS = (
    (0x1F300, 0x1F64F), (0x4E00, 0x9FA5), (0x3041, 0x3096), (0x0410, 0x0450),
    (0x03B1, 0x03CA), (0x2190, 0x2300), (0x21, 0x30), (0x5B, 0x60),
)  # fmt: skip


def restyle(text: str, rng: Rng) -> str:
    """Change the style of a sentence at random.

    A model trained only on complete, capitalized sentences with a full stop repeats itself on texts without it.
    """
    style = rng.integers(6)
    if style == 0:
        return text.rstrip(".!? ") or text
    if style == 1:
        return text.lower()
    if style == 2:  # tokenized as SST-2: lower case, spaces around punctuation, "could n't"
        return _with_spaced_tokens(text.lower())
    if style == 3:  # a phrase of the sentence
        words = text.split()
        length = int(rng.integers(2, max(3, len(words))))
        start = int(rng.integers(0, max(1, len(words) - length + 1)))
        phrase = " ".join(words[start : start + length])
        return _with_spaced_tokens(phrase.lower()) if rng.random() < 0.5 else phrase
    if style == 4:
        return _with_rare_characters(text, rng)
    return re.sub(r"[^\w\s']+", "", text).strip() or text


def _with_rare_characters(text: str, rng: Rng) -> str:
    """Add curly quotes, and one or two words of characters that have no token and are encoded as bytes."""
    words = text.replace("'", "’").split()
    for _ in range(int(rng.integers(1, 3))):
        first, last = _RARE_BLOCKS[rng.integers(len(_RARE_BLOCKS))]
        word = "".join(chr(code) for code in rng.integers(first, last, size=rng.integers(1, 4)))
        words.insert(int(rng.integers(0, len(words) + 1)), word)
    return " ".join(words)


def _with_spaced_tokens(text: str) -> str:
    text = re.sub(r"(\w)(n't|'s|'re|'ve|'ll|'d|'m)\b", r"\1 \2", text)
    text = re.sub(r"([.,!?;:()\"]|--)", r" \1 ", text)
    return " ".join(text.split())
