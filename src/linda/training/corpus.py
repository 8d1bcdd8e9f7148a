"""Sentences to masked, paired, length-bucketed minibatches.

Everything is a function of (seed, epoch, window, step, rank): a resumed run, or one on several processes, sees the same
data as an uninterrupted one, and the global random state is not used.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from linda.errors import LindaError, checked_text, reason
from linda.files.textio import open_text
from linda.model.batching import by_length, padded
from linda.model.loss import IGNORED, draw_alpha

Rng = np.random.Generator
# Masked texts and their targets → token ids of each.
Tokenizer = Callable[[list[str], list[str]], tuple[list[list[int]], list[list[int]]]]

_RANDOM_STREAMS = {"draw": 0, "window": 1, "alpha": 2}  # one independent stream of numbers per purpose


def purpose_stream(purpose: str, *key: int) -> Rng:
    return np.random.default_rng([_RANDOM_STREAMS[purpose], *key])


# ---------------------------------------------------------------- sentences


@dataclass
class Corpus:
    """Plain sentences: `main` files are read in sequence; each of `mixed_in` provides a share of all sentences.

    A file is .txt (one sentence per line, optionally after a label and a tab) or .jsonl (field `text`), plain, .gz or
    .xz; `hub:NAME` is the split `train` of a data set on the Hugging Face hub, read as a stream.
    """

    main: list[str]
    mixed_in: dict[str, float] = field(default_factory=dict)
    held_out: int = 0  # sentences at the beginning of the main files that are not trained on

    @classmethod
    def parse(cls, sources: Iterable[str]) -> Corpus:
        """Parse sources: `FILE` is a main source; `FILE=0.25` is mixed in and provides a quarter of all sentences."""
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
            raise LindaError("a corpus needs at least one file without a share")
        shares = list(corpus.mixed_in.values())
        if not all(0 < share < 1 for share in shares) or sum(shares) >= 1:
            listed = ", ".join(f"{share:g}" for share in shares)
            raise LindaError(f"the shares of mixed-in files are {listed}; each must be above 0, their sum below 1")
        return corpus

    def check_readable(self) -> None:
        """Raise an error if a source has no sentences, before training and not at the end of an epoch."""
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
        """Yield epochs without end: each has every sentence of the main files once, with others spread among them.

        Each epoch continues the other files where the previous one stopped, so that all of them is read.
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
            raise LindaError(f"{name} contains no sentence")


# ---------------------------------------------------------------- transformations of sentences


def mask_words(text: str, probability: float, mask_token: str, rng: Rng) -> str:
    """§3.3: replace each whitespace-separated word by the mask token with the given probability, independently.

    White space between words is kept.
    """
    parts = re.split(r"(\s+)", text)  # words alternating with gaps; a gap at an end leaves an empty word there
    words = [place for place in range(0, len(parts), 2) if parts[place]]
    for place, is_masked in zip(words, rng.random(len(words)) < probability, strict=True):
        if is_masked:
            parts[place] = mask_token
    return "".join(parts)


# Emoji, CJK, kana, Cyrillic, Greek, arrows and mathematics, ASCII's symbols.
_RARE_BLOCKS = (
    (0x1F300, 0x1F64F), (0x4E00, 0x9FA5), (0x3041, 0x3096), (0x0410, 0x0450),
    (0x03B1, 0x03CA), (0x2190, 0x2300), (0x21, 0x30), (0x5B, 0x60),
)  # fmt: skip


def restyle(text: str, rng: Rng) -> str:
    """Vary the style of a sentence.

    A model trained only on complete, capitalized sentences with a full stop repeats itself when one is missing.
    """
    style = rng.integers(6)
    if style == 0:
        return text.rstrip(".!? ") or text
    if style == 1:
        return text.lower()
    if style == 2:  # tokenized as SST-2: lower case, spaces around punctuation, "could n't"
        return _tokens_apart(text.lower())
    if style == 3:  # a phrase out of the sentence
        words = text.split()
        length = int(rng.integers(2, max(3, len(words))))
        start = int(rng.integers(0, max(1, len(words) - length + 1)))
        phrase = " ".join(words[start : start + length])
        return _tokens_apart(phrase.lower()) if rng.random() < 0.5 else phrase
    if style == 4:
        return _with_rare_characters(text, rng)
    return re.sub(r"[^\w\s']+", "", text).strip() or text


def _with_rare_characters(text: str, rng: Rng) -> str:
    """Add curly quotes, and one or two words in characters without a token, which are encoded as bytes."""
    words = text.replace("'", "’").split()
    for _ in range(int(rng.integers(1, 3))):
        first, last = _RARE_BLOCKS[rng.integers(len(_RARE_BLOCKS))]
        word = "".join(chr(code) for code in rng.integers(first, last, size=rng.integers(1, 4)))
        words.insert(int(rng.integers(0, len(words) + 1)), word)
    return " ".join(words)


def _tokens_apart(text: str) -> str:
    text = re.sub(r"(\w)(n't|'s|'re|'ve|'ll|'d|'m)\b", r"\1 \2", text)
    text = re.sub(r"([.,!?;:()\"]|--)", r" \1 ", text)
    return " ".join(text.split())


# ---------------------------------------------------------------- minibatches


@dataclass
class PairBatch:
    """M pairs and the ratio they are mixed at; inputs (M, L), targets (M, T) padded with IGNORED, alpha (M,)."""

    ids_a: Tensor
    mask_a: Tensor
    ids_b: Tensor
    mask_b: Tensor
    targets_a: Tensor
    targets_b: Tensor
    alpha: Tensor

    @property
    def tokens(self) -> int:
        return int(self.mask_a.sum() + self.mask_b.sum())

    def to(self, device: torch.device) -> dict[str, Tensor]:
        """Return the arguments of `LindaModel.forward`."""
        return {name: tensor.to(device) for name, tensor in vars(self).items()}


@dataclass
class TextBatch:
    """Plain sentences (M, T), padded with IGNORED, which the decoder reads without a source text."""

    texts: Tensor

    @classmethod
    def of(cls, pairs: PairBatch) -> TextBatch:
        """Return the sentences of some pairs."""
        sides = pairs.targets_a, pairs.targets_b
        width = max(side.shape[1] for side in sides)
        return cls(torch.cat([F.pad(side, (0, width - side.shape[1]), value=IGNORED) for side in sides]))

    @property
    def tokens(self) -> int:
        return int((self.texts != IGNORED).sum())

    def to(self, device: torch.device) -> dict[str, Tensor]:
        """Return the arguments of `LindaModel.forward`."""
        return {"texts": self.texts.to(device)}


@dataclass
class MaskedSentence:
    """One sentence, ready for the model."""

    text: str
    input_ids: list[int]
    target_ids: list[int]


@dataclass
class PairSampler:
    """Splits a stream of sentences into minibatches of pairs that need no padding.

    A window of sentences is sorted by length and split into groups of M rows of (almost always) equal length. Two
    random groups are a minibatch, one of first texts and one of second texts: both are dense, and with the single ratio
    of a minibatch (§4) so is the mixture. A corpus that fits into a window is kept in memory; a larger one is streamed
    window by window.
    """

    corpus: Corpus
    tokenize: Tokenizer
    mask_token: str
    mask_probability: float
    pad_id: int
    pairs: int  # M
    seed: int = 0
    restyled: float = 0.0  # share of sentences in another style
    middle: float = 1.0  # as in `draw_alpha`
    mirrored: bool = False
    window: int = 2**16
    rank: int = 0
    ranks: int = 1

    def batches(self, first_step: int = 0) -> Iterator[tuple[int, PairBatch]]:
        """Yield (step, minibatch) without end, from any step on, without computing those before it."""
        step = 0
        for epoch, sentences in enumerate(self.corpus.epochs(self.seed)):
            start_of_epoch = step
            for number in itertools.count():
                window = list(itertools.islice(sentences, self.window))
                if not window:
                    break
                steps = self._group_count(len(window)) // 2 // self.ranks
                if steps and step + steps > first_step:
                    for index, pair in enumerate(self._pair_groups(window, epoch, number)):
                        if step + index >= first_step:
                            yield step + index, self._batch(*pair, step + index)
                step += steps
            if step == start_of_epoch:
                raise LindaError(
                    f"the corpus is too small: {2 * self.ranks} sentences or more are needed for "
                    f"{self.ranks} process(es)"
                )

    def _group_size(self, sentences: int) -> int:
        return min(self.pairs, sentences // (2 * self.ranks))

    def _group_count(self, sentences: int) -> int:
        size = self._group_size(sentences)
        return sentences // size if size else 0

    def _pair_groups(
        self, window: list[str], epoch: int, number: int
    ) -> Iterator[tuple[list[MaskedSentence], list[MaskedSentence]]]:
        """Yield this rank's minibatches of one window, each a group of first texts and a group of second texts."""
        rng = purpose_stream("window", self.seed, epoch, number)
        size = self._group_size(len(window))
        steps = self._group_count(len(window)) // 2 // self.ranks
        kept = rng.permutation(len(window))[: steps * 2 * self.ranks * size]  # the rest fills no group
        rows = self._rows([window[i] for i in kept], rng)
        groups = by_length(rows, lambda row: (len(row.input_ids), len(row.target_ids)), size)
        order = rng.permutation(len(groups)).reshape(-1, 2)
        shuffles = [rng.permutation(size) for _ in order]  # the same for all ranks
        for (first, second), shuffle in list(zip(order, shuffles, strict=True))[self.rank :: self.ranks]:
            group_b = [groups[second][i] for i in shuffle]
            yield groups[first], _parted(groups[first], group_b)

    def _rows(self, texts: list[str], rng: Rng) -> list[MaskedSentence]:
        texts = [restyle(text, rng) if rng.random() < self.restyled else text for text in texts]
        masked = [mask_words(text, self.mask_probability, self.mask_token, rng) for text in texts]
        inputs, targets = self.tokenize(masked, texts)
        return [MaskedSentence(*parts) for parts in zip(texts, inputs, targets, strict=True)]

    def _batch(self, group_a: list[MaskedSentence], group_b: list[MaskedSentence], step: int) -> PairBatch:
        alpha = draw_alpha(
            purpose_stream("alpha", self.seed, step, self.rank), mirrored=self.mirrored, middle=self.middle
        )
        return collate(group_a, group_b, alpha, self.pad_id)


def _parted(group_a: list[MaskedSentence], group_b: list[MaskedSentence]) -> list[MaskedSentence]:
    """Rotate `group_b` until no text is paired with itself, if possible: a corpus may contain duplicates."""
    for turn in range(len(group_b)):
        turned = group_b[turn:] + group_b[:turn]
        if all(a.text != b.text for a, b in zip(group_a, turned, strict=True)):
            return turned
    return group_b


def collate(group_a: list[MaskedSentence], group_b: list[MaskedSentence], alpha: float, pad_id: int) -> PairBatch:
    """Combine two groups of M rows to one minibatch."""
    ids_a, mask_a = padded_ids([row.input_ids for row in group_a], pad_id)
    ids_b, mask_b = padded_ids([row.input_ids for row in group_b], pad_id)
    return PairBatch(
        ids_a,
        mask_a,
        ids_b,
        mask_b,
        targets_a=padded_ids([row.target_ids for row in group_a], IGNORED)[0],
        targets_b=padded_ids([row.target_ids for row in group_b], IGNORED)[0],
        alpha=torch.full((len(group_a),), alpha),
    )


def padded_ids(rows: list[list[int]], filler: int) -> tuple[Tensor, Tensor]:
    return padded([torch.tensor(row) for row in rows], filler, narrowest=1)
