"""Length-bucketed minibatches against random padded ones: tokens per second of training, in one run.

    python benchmarks/batching.py BASE CORPUS [--pairs 32] [--rounds 10]

BASE is an encoder-decoder or a LINDA model, CORPUS a file of sentences. The two kinds of minibatches alternate, so that
other load on the machine affects both. Only real tokens are counted, without padding.
"""

import argparse
import itertools
import json
import time
from collections.abc import Iterator

import numpy as np
import torch

from linda.model import LindaModel
from linda.training import TrainingSettings, pair_sampler, start_model
from linda.training.corpus import Corpus, read_sentences
from linda.training.pair_batches import MaskedSentence, PairBatch, PairSampler, collate


def random_batches(sampler: PairSampler, corpus: str, seed: int) -> Iterator[PairBatch]:
    """Yield minibatches of random pairs, padded to the longest text, as a plain data loader does."""
    rng = np.random.default_rng(seed)
    sentences = list(itertools.islice(read_sentences(corpus), sampler.window))
    while True:
        rows: list[MaskedSentence] = sampler._rows(list(rng.choice(sentences, 2 * sampler.pairs, replace=False)), rng)
        yield collate(rows[: sampler.pairs], rows[sampler.pairs :], rng.random(), sampler.pad_id)


def update(model: LindaModel, optimizer: torch.optim.Optimizer, batch: PairBatch) -> float:
    start = time.perf_counter()
    model(**batch.to(model.device)).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base")
    parser.add_argument("corpus")
    parser.add_argument("--pairs", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=2)
    arguments = parser.parse_args()

    settings = TrainingSettings(base=arguments.base, pairs=arguments.pairs, dropout=0.0)
    model = start_model(settings).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    sampler = pair_sampler(model, Corpus.parse([arguments.corpus]), settings)
    kinds = {
        "bucketed": (batch for _, batch in sampler.batches()),
        "random padded": random_batches(sampler, arguments.corpus, seed=0),
    }
    tokens, seconds, cells = (dict.fromkeys(kinds, 0.0) for _ in range(3))
    for number in range(arguments.warmup + arguments.rounds):
        for kind, batches in kinds.items():
            batch = next(batches)
            taken = update(model, optimizer, batch)
            if number >= arguments.warmup:
                seconds[kind] += taken
                tokens[kind] += batch.tokens
                cells[kind] += batch.mask_a.numel() + batch.mask_b.numel()
    speed = {kind: tokens[kind] / seconds[kind] for kind in kinds}
    report = {
        "tokens_per_second": speed,
        "padding": {kind: 1 - tokens[kind] / cells[kind] for kind in kinds},
        "ratio": speed["bucketed"] / speed["random padded"],
        "threads": torch.get_num_threads(),
        "pairs": arguments.pairs,
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
