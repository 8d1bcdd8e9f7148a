"""The data of a run: held-out data for validation, and the stream of minibatches of all kinds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from linda.errors import LindaError
from linda.model import LindaModel
from linda.training.corpus import Corpus, read_sentences
from linda.training.middle_batches import MiddlePair, MiddleSampler, read_middles, shard_files
from linda.training.pair_batches import Minibatch, PairSampler, TextBatch, Tokenizer
from linda.training.settings import TrainingSettings

_VALIDATION_SENTENCES = 256  # half of them first texts, half second texts
_VALIDATION_MIDDLES = 64  # pairs


@dataclass(frozen=True)
class TrainingData:
    """The data for training and validation."""

    corpus: Corpus | None
    held_out: list[str]
    middles: list[Path]
    held_out_middles: list[MiddlePair]

    @classmethod
    def of(cls, settings: TrainingSettings) -> TrainingData:
        """Find the files, and read the held-out data."""
        corpus = Corpus.parse(settings.corpus) if settings.corpus or not settings.middles else None
        if corpus is not None:
            corpus.check_readable()
        return cls(corpus, _held_out_sentences(settings, corpus), *split_middles(settings))


def _held_out_sentences(settings: TrainingSettings, corpus: Corpus | None) -> list[str]:
    """Return the validation sentences: those of a separate file, or the first of the corpus, which training skips."""
    if corpus is None and not settings.validation:
        return []
    if settings.validation:
        held_out = list(itertools.islice(read_sentences(settings.validation), _VALIDATION_SENTENCES))
    else:
        assert corpus is not None
        held_out = corpus.hold_out(settings.hold_out)
    if len(held_out) == 1:
        where = f"{settings.validation} has" if settings.validation else "--hold-out 1 takes"
        raise LindaError(f"{where} one sentence, but validation needs pairs; give 2 or more, or none")
    return held_out


def split_middles(settings: TrainingSettings) -> tuple[list[Path], list[MiddlePair]]:
    """Return the files for training, and the middles for validation: from the last file, if there are several."""
    if not settings.middles:
        return [], []
    files = shard_files(settings.middles)
    if len(files) == 1:
        return files, []
    return files[:-1], read_middles(files[-1])[:_VALIDATION_MIDDLES]


def minibatches(
    model: LindaModel, data: TrainingData, settings: TrainingSettings, first_step: int, accelerator: Any
) -> Iterator[Minibatch]:
    """Yield minibatches of pairs, texts and middles by their shares; the sequence does not depend on the first step."""
    corpus, middles = data.corpus, data.middles
    rank, ranks = accelerator.process_index, accelerator.num_processes
    # Also without middles: a model that mixes by attention scores crossovers as a language model of its corpus.
    text_share = settings.text_share if corpus is not None and model.attention_mixing is not None else 0.0
    pair_share = 0.0 if corpus is None else settings.pair_share if middles else 1 - text_share
    sampled = {"rank": rank, "ranks": ranks}
    corpus_share = pair_share + text_share

    from_corpus = _spread(corpus_share, first_step)
    from_pairs = _spread(pair_share / corpus_share, from_corpus) if corpus_share else 0
    pairs = texts = between = None
    if corpus is not None and pair_share:
        pairs = pair_sampler(model, corpus, settings, **sampled).batches(from_pairs)
    if corpus is not None and text_share:
        # Plain sentences are drawn as pairs, too; a minibatch may have more of them.
        alone = replace(settings, pairs=settings.texts_per_process(ranks) // 2 * ranks)
        texts = pair_sampler(model, corpus, alone, **sampled).batches(from_corpus - from_pairs)
    if middles:
        between = middle_sampler(model, middles, settings, **sampled).batches(first_step - from_corpus)
    for step in itertools.count(first_step):
        if between and _spread(corpus_share, step + 1) == from_corpus:
            yield next(between)
            continue
        from_corpus += 1
        if pairs and _spread(pair_share / corpus_share, from_corpus) > from_pairs:
            from_pairs += 1
            yield next(pairs)[1]
        elif texts:
            yield TextBatch.of(next(texts)[1])


def _spread(share: float, step: int) -> int:
    """Return how many of the first `step` steps belong to a share of all steps that is spread evenly."""
    return math.floor(share * step + 1e-9)  # sums of shares such as 0.1 + 0.2 are not exact


def tokenizer(model: LindaModel, settings: TrainingSettings) -> Tokenizer:
    """Return the tokenizer of the minibatches: texts have at most `max_length` tokens, targets no special tokens."""

    def tokenize(masked: list[str], targets: list[str]) -> tuple[list[list[int]], list[list[int]]]:
        limits = {"truncation": True, "max_length": settings.config.max_length}
        return (
            model.tokenizer(masked, **limits)["input_ids"],
            model.tokenizer(targets, split_special_tokens=True, **limits)["input_ids"],
        )

    return tokenize


def middle_sampler(
    model: LindaModel, files: list[Path], settings: TrainingSettings, rank: int = 0, ranks: int = 1
) -> MiddleSampler:
    """Create the sampler of minibatches of middles for a model."""
    shared = _shared_settings(model, settings, rank, ranks)
    return MiddleSampler(files, ends=settings.ends, candidates=settings.candidates, **shared)


def pair_sampler(
    model: LindaModel, corpus: Corpus, settings: TrainingSettings, rank: int = 0, ranks: int = 1
) -> PairSampler:
    """Create the sampler of minibatches of pairs for a model."""
    return PairSampler(
        corpus,
        restyled=settings.restyled,
        middle=settings.middle,
        mirrored=settings.config.mirrored,
        window=settings.window,
        **_shared_settings(model, settings, rank, ranks),
    )


def _shared_settings(model: LindaModel, settings: TrainingSettings, rank: int, ranks: int) -> dict[str, Any]:
    return {
        "tokenize": tokenizer(model, settings),
        "mask_token": model.config.mask_token,
        "mask_probability": settings.config.mask_probability,
        "pad_id": model.tokenizer.pad_token_id,
        "pairs": settings.pairs_per_process(ranks),
        "seed": settings.seed,
        "rank": rank,
        "ranks": ranks,
    }
