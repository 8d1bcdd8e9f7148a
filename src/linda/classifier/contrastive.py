"""Contrastive fine-tuning of an encoder, then logistic regression on its vectors: SetFit (Tunstall et al. 2022).

The `setfit` package supports hard labels only. Here the target similarity of a pair is the inner product of
its two labels: 1 for the same class, 0 for different ones, and between the two for soft labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from linda.classifier.encoder import SentenceEncoder, find_encoder, known_learning_rate
from linda.classifier.inputs import TrainingRows
from linda.classifier.probe import logistic_regression
from linda.classifier.seeding import random_stream, seeded_dropout
from linda.classifier.vector_classifier import VectorClassifier
from linda.classifier.vectors import SentenceVectors
from linda.errors import LindaError
from linda.model.pretrained import find_device

PAIRS_PER_ROW = 40  # half of them with the same class, like SetFit's num_iterations=20
PAIRS_PER_BATCH = 16
_LEARNING_RATE = 2e-5  # SetFit's default, for encoders without a known learning rate
_WARM_UP = 0.1  # share of the updates used for warm-up


class ContrastiveClassifier(VectorClassifier):
    """Fine-tunes an encoder so that texts of a class have similar vectors, then trains logistic regression on them.

    Args:
        encoder: Folder or hub name of a `transformers` encoder; None is all-MiniLM-L6-v2.
        learning_rate: Peak of the schedule: linear warm-up over a tenth of the updates, then linear decay. None is the
            value known for the encoder, else 2e-5.
        updates: Number of minibatches of 16 pairs; None is 40 pairs per row.
        max_length: Tokens of a text that the encoder reads.
        smote: Fill rare classes with SMOTE's synthetic vectors for the logistic regression.
        device: `auto`, `cpu`, `cuda` or `mps`.

    Example:
        >>> student = ContrastiveClassifier(updates=10).fit(["a fine film", "a dull film"] * 2, ["pos", "neg"] * 2)
        >>> student.predict_proba(["a fine day"]).shape
        (1, 2)
    """

    def __init__(
        self,
        encoder: str | Path | None = None,
        *,
        learning_rate: float | None = None,
        updates: int | None = None,
        max_length: int = 256,
        smote: bool = False,
        device: str = "auto",
    ) -> None:
        super().__init__(logistic_regression(), smote=smote)
        self.encoder = find_encoder(encoder)
        self.learning_rate = learning_rate or known_learning_rate(encoder) or _LEARNING_RATE
        self.updates = updates
        self.max_length = max_length
        self.device = find_device(device)
        self._vectors: SentenceVectors | None = None

    def _trained_vectors(self, rows: TrainingRows, seed: int) -> np.ndarray:
        encoder = SentenceEncoder.from_pretrained(self.encoder, self.max_length).to(self.device)
        if self.updates is None:
            self.updates = contrastive_updates(len(rows.texts))
        if len(np.unique(rows.targets.argmax(axis=1))) > 1:  # with a single class there is nothing to contrast
            with seeded_dropout(seed, self.device), encoder.narrowed(chain(rows.texts, rows.pairs or ())):
                self._train(encoder.train(), rows, seed)
        self._vectors = SentenceVectors(encoder)
        return self._vectors(rows.texts, rows.pairs)

    def _train(self, encoder: SentenceEncoder, rows: TrainingRows, seed: int) -> None:
        assert self.updates is not None
        optimizer = torch.optim.AdamW(encoder.parameters(), lr=self.learning_rate, fused=True)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, _warm_up_and_decay(self.updates))
        random = random_stream(seed, 0)
        tokens = encoder.tokenize(rows.texts, rows.pairs)
        targets, weights = rows.targets, rows.weights
        codes = targets.argmax(axis=1)
        for _ in range(self.updates):
            first, second = draw_row_pairs(codes, PAIRS_PER_BATCH, random)
            used, place = np.unique([first, second], return_inverse=True)  # with few rows, many occur more than once
            vectors = encoder([tokens[row] for row in used])[torch.from_numpy(place.reshape(2, -1))]  # (2, B, d)
            similarity = nn.functional.cosine_similarity(vectors[0], vectors[1])  # (B,)
            wanted = torch.from_numpy((targets[first] * targets[second]).sum(axis=1)).to(similarity)
            pair_weights = torch.from_numpy(weights[first] * weights[second]).to(similarity)
            loss = (pair_weights * (similarity - wanted) ** 2).sum() / pair_weights.sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()

    def _vectors_of(self, texts: Sequence[str], pairs: Sequence[str] | None) -> np.ndarray:
        if self._vectors is None:
            raise LindaError("this ContrastiveClassifier has not been trained; call fit first")
        return self._vectors(texts, pairs)


def contrastive_updates(n_rows: int) -> int:
    """Return the number of minibatches for 40 pairs per row."""
    return math.ceil(PAIRS_PER_ROW * n_rows / PAIRS_PER_BATCH)


def draw_row_pairs(codes: np.ndarray, count: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw pairs of rows, half of them with the same class; the only row of a class is paired with itself."""
    first = random.integers(len(codes), size=count)
    same = np.arange(count) < count // 2
    is_same_class = codes[first][:, None] == codes[None]  # (count, N)
    allowed = np.where(same[:, None], is_same_class, ~is_same_class)
    itself = np.arange(len(codes)) == first[:, None]
    has_other = (allowed & ~itself).any(axis=1)
    allowed = np.where(has_other[:, None], allowed & ~itself, allowed)
    second = (random.random(allowed.shape) * allowed).argmax(axis=1)
    return first, second


def _warm_up_and_decay(updates: int) -> Any:
    warm_up = max(1, round(_WARM_UP * updates))

    def share(step: int) -> float:
        rising = (step + 1) / warm_up
        falling = (updates - step) / max(1, updates - warm_up)
        return min(rising, falling, 1.0)

    return share
