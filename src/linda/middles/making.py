"""Make middles from corpora: crossovers of pairs of real texts at given ratios.

A pair depends only on the corpora, the seed and its number. A *shard* is a fixed range of pairs and is written
completely or not at all, so an interrupted run continues with the first missing shard.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from linda.crossovers import Crossover, CutText
from linda.errors import LindaError, checked_number
from linda.files.folders import check_output_folder
from linda.files.jsonfile import read_json_object
from linda.files.textio import atomic_writer, open_text, writing
from linda.middles.ngrams import TrigramModel
from linda.middles.rerank import SeamRanker
from linda.middles.seams import trigram_search
from linda.model.batching import by_length
from linda.training.corpus import name_and_share, restyle

SHARD_PAIRS = 512
_RANKED_AT_ONCE = 16  # pairs per batch of the language model
_WINDOW = 4096  # sentences; pairs are drawn within a window
_MIN_WORDS = 3  # of a sentence


@dataclass(frozen=True)
class Source:
    """A corpus and its share of all pairs.

    Lines are `sentence` or `kind<TAB>sentence`; both texts of a pair have the same kind.
    """

    path: str
    share: float

    @classmethod
    def parse(cls, source: str) -> Source:
        """Parse `FILE` or `FILE=0.45`."""
        name, share = name_and_share(source)
        if share is not None and not 0 < share < float("inf"):
            raise LindaError(f"corpus {source!r}: the share after '=' must be a positive number")
        return cls(name, 1.0 if share is None else share)


@dataclass(frozen=True)
class MiddlesPlan:
    """The settings that determine which middles are made.

    Args:
        sources: Corpora with their shares.
        seed: Seed of all random choices.
        ratios: Number of middles per pair, at different ratios.
        restyled: Share of pairs to change in style: lower case, no full stop, spaces around punctuation …
        joined: Share of pairs with a first text of two sentences; half of these also have a second text of two.
        candidates: Number of crossovers that the language model chooses from.
    """

    sources: tuple[Source, ...]
    seed: int = 0
    ratios: int = 2
    restyled: float = 0.35
    joined: float = 0.08
    candidates: int = 12

    def __post_init__(self) -> None:
        for name in ("restyled", "joined"):
            checked_number(getattr(self, name), name, 0, 1)


@dataclass(frozen=True)
class TextPair:
    """Two texts and the requested ratios between them."""

    a: str
    b: str
    ratios: tuple[float, ...]


@dataclass(frozen=True)
class Middle:
    """A training target between a and b; `share` is the share of its words from a."""

    a: str
    b: str
    alpha: float  # the requested ratio
    share: float
    target: str
    score: float
    # The other candidates, best first: score, share, then text, start and stop of each run.
    others: list[list[float]]


def draw_text_pairs(plan: MiddlesPlan) -> Iterator[TextPair]:
    """Yield an endless stream of pairs, in a fixed order."""
    shares = np.array([source.share for source in plan.sources])
    bounds = np.cumsum(shares / shares.sum())
    streams = [_pairs_of_a_kind(source.path) for source in plan.sources]
    for number in itertools.count():
        rng = np.random.default_rng([plan.seed, number])
        stream = streams[min(int(np.searchsorted(bounds, rng.random(), side="right")), len(streams) - 1)]
        a, b = next(stream)
        if rng.random() < plan.joined:
            more_a, more_b = next(stream)
            a = f"{a} {more_a}"
            if rng.random() < 0.5:
                b = f"{b} {more_b}"
        if rng.random() < plan.restyled:
            # Usually both texts have the same style, as in a data set: equal generators choose the same style.
            key_a, key_b = rng.integers(2**32, size=2)
            same = rng.random() < 0.8
            a = restyle(a, np.random.default_rng(key_a))
            b = restyle(b, np.random.default_rng(key_a if same else key_b))
        # Stratified sampling: one ratio in each of `ratios` equal parts of the range 0.08 to 0.92.
        ratios = 0.08 + 0.84 * (np.arange(plan.ratios) + rng.random(plan.ratios)) / plan.ratios
        yield TextPair(a, b, tuple(float(ratio) for ratio in ratios.round(3)))


def _pairs_of_a_kind(path: str) -> Iterator[tuple[str, str]]:
    """Yield pairs of sentences of the same kind, window by window; the corpus is repeated endlessly."""
    while True:
        empty = True
        with open_text(path) as lines:
            while window := list(itertools.islice(lines, _WINDOW)):
                by_kind: dict[str, list[str]] = {}
                for line in window:
                    kind, _, sentence = line.rstrip("\n").rpartition("\t")
                    if len(sentence.split()) >= _MIN_WORDS:
                        by_kind.setdefault(kind, []).append(sentence.strip())
                pairs = [
                    (place / len(sentences), pair)
                    for sentences in by_kind.values()
                    for place, pair in enumerate(zip(sentences[::2], sentences[1::2], strict=False))
                    if pair[0] != pair[1]
                ]
                for _, pair in sorted(pairs, key=lambda item: item[0]):  # spread the kinds evenly
                    empty = False
                    yield pair
        if empty:
            raise LindaError(f"{path} contains no two sentences of {_MIN_WORDS} words or more; give another corpus")


def make_middles(
    pairs: Sequence[TextPair], trigrams: TrigramModel, ranker: SeamRanker | None, candidates: int = 12
) -> list[Middle]:
    """Find the middles of some pairs. A pair has none at ratios for which its texts are too short.

    Args:
        pairs: Texts with ratios.
        trigrams: Trigram model that finds the candidates.
        ranker: Ranks the candidates; None keeps the one that the trigram model scores best.
        candidates: Number of crossovers that the ranker chooses from.

    Returns:
        The middles, in the order of pairs and ratios.

    Example:
        >>> make_middles([TextPair(a, b, (0.3, 0.7))], TrigramModel.load("trigrams.safetensors"), None)
    """
    cut, found = [], []
    for pair in pairs:
        first, second, search = trigram_search(pair.a, pair.b, trigrams)
        cut.append((first, second))
        found.append([(ratio, search.best(ratio, candidates if ranker else 1)) for ratio in pair.ratios])
    if ranker is not None:
        # Batches have pairs of similar length; the results are in the original order.
        for batch in by_length(range(len(pairs)), lambda p: len(pairs[p].a) + len(pairs[p].b), _RANKED_AT_ONCE):
            ranked = ranker.rank([cut[p] for p in batch], [found[p] for p in batch])
            for p, by_ratio in zip(batch, ranked, strict=True):
                found[p] = list(zip(pairs[p].ratios, by_ratio, strict=True))
    return [
        _middle(pair, texts, ratio, *crossovers)
        for pair, texts, ratios in zip(pairs, cut, found, strict=True)
        for ratio, crossovers in ratios
        if crossovers
    ]


def _middle(
    pair: TextPair, texts: tuple[CutText, CutText], ratio: float, best: Crossover, *others: Crossover
) -> Middle:
    rest = [[round(c.score, 3), round(c.share, 4), *itertools.chain.from_iterable(c.runs)] for c in others]
    return Middle(pair.a, pair.b, ratio, round(best.share, 4), best.text(*texts), round(best.score, 3), rest)


def write_shards(
    folder: Path,
    plan: MiddlesPlan,
    trigrams: TrigramModel,
    ranker: SeamRanker | None,
    shards: Iterable[int],
    progress: bool = False,
) -> None:
    """Write the missing shards.

    Args:
        folder: Folder for `middles-00000.jsonl.gz` …; it must not contain middles of another plan.
        plan: Settings of the pairs.
        trigrams: As in `make_middles`.
        ranker: As in `make_middles`.
        shards: Shard numbers, ascending.
        progress: Show a progress bar.
    """
    _check_plan(folder, plan, ranker is not None)
    wanted = [number for number in shards if not shard_path(folder, number).exists()]
    stream = draw_text_pairs(plan)
    drawn = 0
    with tqdm(total=len(wanted) * SHARD_PAIRS, desc="middles", unit="pair", disable=not progress) as bar:
        for number in wanted:
            first = number * SHARD_PAIRS
            next(itertools.islice(stream, first - drawn, first - drawn), None)
            pairs = list(itertools.islice(stream, SHARD_PAIRS))
            drawn = first + SHARD_PAIRS
            with atomic_writer(shard_path(folder, number)) as file:
                for start in range(0, SHARD_PAIRS, 128):
                    part = pairs[start : start + 128]
                    for middle in make_middles(part, trigrams, ranker, plan.candidates):
                        file.write(json.dumps(asdict(middle), ensure_ascii=False) + "\n")
                    bar.update(len(part))


def shard_path(folder: Path, number: int) -> Path:
    return folder / f"middles-{number:05d}.jsonl.gz"


def _check_plan(folder: Path, plan: MiddlesPlan, ranked: bool) -> None:
    check_output_folder(folder)
    for source in plan.sources:
        next(_pairs_of_a_kind(source.path))  # raises an error before the folder is created
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    described = json.dumps({**asdict(plan), "ranked": ranked}, indent=2) + "\n"
    path = folder / "plan.json"
    if path.exists():
        if read_json_object(path) != json.loads(described):
            raise LindaError(f"{folder} contains middles made with other settings; give another folder")
        return
    with atomic_writer(path) as file:
        file.write(described)
