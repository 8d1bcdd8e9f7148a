"""A fine-tuned text classifier for hard and soft labels.

    classifier = TextClassifier(epochs=30, batch_size=8).fit(texts, labels)
    classifier.predict(["How far is the moon?"])

The loss is cross-entropy against a distribution. (The Trainer of `transformers` treats float vectors as multi-label
targets and scores every class separately; so does this classifier with `multi_label`.) The seed of `fit` determines all
randomness: the new head, the order of the rows and the dropout.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from linda.classifier.encoder import SentenceEncoder, find_encoder, known_learning_rate
from linda.classifier.inputs import TrainingRows, by_position, check_rows
from linda.classifier.losses import soft_binary_cross_entropy, soft_cross_entropy
from linda.classifier.seeding import random_stream, seeded_dropout
from linda.errors import MAX_SEED, LindaError, checked_integer, checked_kind, checked_number, reason, shortened
from linda.evaluation.metrics import PRESENT
from linda.files.folders import atomic_folder
from linda.files.jsonfile import read_json_object
from linda.files.paths import check_regular_file, checked_path
from linda.model.pretrained import CLASSIFIER_FILE, ModelKind, find_device, kind_of_model

_HEAD_FILE = "head.safetensors"

_ORDER, _MIXUP = range(2)  # random streams

_MEASUREMENTS = 10  # of watched rows during training


@dataclass(frozen=True)
class WatchedRows:
    """Rows that are not trained on, with their classes, whose log loss is measured during training."""

    texts: Sequence[str]
    pairs: Sequence[str] | None
    labels: Sequence[Any]


class TextClassifier:
    """Fine-tunes an encoder with a linear layer on top of its sentence vector.

    Args:
        encoder: Folder or hub name of a `transformers` encoder; None is all-MiniLM-L6-v2.
        learning_rate: Constant learning rate of Adam; None is the value known for the encoder, else 3e-5.
        batch_size: Rows per minibatch.
        epochs: Passes over the rows, if `updates` is None.
        updates: Number of minibatches, regardless of the number of rows.
        mixup: Mix sentence vectors and labels within each minibatch, λ ~ Beta(mixup, mixup) (Guo et al. 2019).
        dropout: Dropout on the sentence vector.
        multi_label: Rows have several labels: `fit` takes values (N, C) from 0 to 1, the loss is the binary
            cross-entropy, and each class is predicted independently.
        max_length: Tokens of a text that the encoder reads; the rest is truncated.
        device: `auto`, `cpu`, `cuda` or `mps`.
        progress: Show a progress bar.

    Example:
        >>> classifier = TextClassifier(epochs=30, batch_size=8).fit(texts, labels)
        >>> classifier.predict(["How far is the moon?"])
        ['NUM']
    """

    def __init__(
        self,
        encoder: str | Path | None = None,
        *,
        learning_rate: float | None = None,
        batch_size: int = 32,
        epochs: int = 5,
        updates: int | None = None,
        mixup: float | None = None,
        dropout: float = 0.1,
        max_length: int = 256,
        multi_label: bool = False,
        device: str = "auto",
        progress: bool = False,
    ) -> None:
        if encoder is not None:
            checked_path(encoder)
        self.encoder = find_encoder(encoder)
        self.learning_rate = learning_rate or known_learning_rate(encoder) or 3e-5
        self.batch_size = batch_size
        self.epochs = epochs
        self.updates = updates
        self.mixup = mixup
        self.dropout = dropout
        self.max_length = max_length
        self.multi_label = multi_label
        self._check_settings()
        self.device = find_device(device)
        self.progress = progress
        self.classes_: list[Any] = []
        self.losses_: dict[float, float] = {}  # log loss of watched rows by the share of the updates
        self._network: _Network | None = None

    def fit(
        self,
        texts: Sequence[str],
        labels: Sequence[Any] | np.ndarray,
        pairs: Sequence[str] | None = None,
        weights: Sequence[float] | None = None,
        *,
        classes: Sequence[Any] | None = None,
        seed: int = 0,
        watched: WatchedRows | None = None,
    ) -> TextClassifier:
        """Train from the pretrained encoder, or from the saved one if this classifier was loaded.

        Args:
            texts: One text per row.
            labels: One class per row, or distributions (N, C) over `classes`; with `multi_label`, values (N, C).
            pairs: The second text of each row, for tasks on pairs of texts.
            weights: Weight of each row in the loss, relative to the others of its minibatch.
            classes: All classes, in order. Required with distributions, and if the rows do not include all of them.
            seed: Seed of the new layer, the order of the rows and the dropout.
            watched: Rows whose log loss is measured after every tenth of the updates, in `losses_`. They do not change
                the training.

        Returns:
            This classifier.

        Example:
            >>> labels = np.array([[1.0, 0.0], [0.3, 0.7]])  # soft labels
            >>> TextClassifier().fit(["a fine film", "a dull film"], labels, classes=["pos", "neg"])
        """
        checked_integer(seed, "seed", 0, MAX_SEED)
        checked_kind(watched, "watched", (WatchedRows, NoneType), "a WatchedRows")
        rows = TrainingRows.of(texts, labels, pairs, weights, classes, self.multi_label)
        texts, pairs, targets, self.classes_, row_weights = rows
        loss_weights = torch.from_numpy(row_weights).float()
        with seeded_dropout(seed, self.device):
            encoder = SentenceEncoder.from_pretrained(self.encoder, self.max_length)
            network = _Network(encoder, len(self.classes_), self.dropout, self.multi_label)
            network.initialize(torch.Generator().manual_seed(seed))
            network.to(self.device).train()
            known = [*texts, *(pairs or ()), *(watched.texts if watched else ()), *((watched and watched.pairs) or ())]
            with encoder.narrowed(known):
                self._train(network, texts, pairs, torch.from_numpy(targets).float(), loss_weights, seed, watched)
        self._network = network.eval()
        return self

    def _train(
        self,
        network: _Network,
        texts: Sequence[str],
        pairs: Sequence[str] | None,
        targets: Tensor,
        weights: Tensor,
        seed: int,
        watched: WatchedRows | None,
    ) -> None:
        encoder = network.encoder
        loss_of = soft_binary_cross_entropy if self.multi_label else soft_cross_entropy
        optimizer = torch.optim.Adam(network.parameters(), lr=self.learning_rate, fused=True)
        batches = _batches_forever(len(texts), self.batch_size, random_stream(seed, _ORDER))
        mixing = random_stream(seed, _MIXUP)
        updates = self.updates or self.epochs * math.ceil(len(texts) / self.batch_size)
        measured = {round(updates * part / _MEASUREMENTS): part / _MEASUREMENTS for part in range(1, _MEASUREMENTS + 1)}
        for number in self._with_progress(range(1, updates + 1)):
            batch = next(batches)
            second = None if pairs is None else [pairs[row] for row in batch]
            vectors = encoder(encoder.tokenize([texts[row] for row in batch], second))  # (B, d)
            target = targets[batch].to(self.device)
            if self.mixup is not None:
                vectors, target = _mixed(vectors, target, self.mixup, mixing)
            loss = loss_of(network.logits(vectors), target, weights[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if watched is not None and number in measured:
                self.losses_[measured[number]] = self._log_loss(network, watched)

    def _log_loss(self, network: _Network, rows: WatchedRows) -> float:
        network.eval()
        probabilities = network.probabilities(rows.texts, rows.pairs)
        network.train()
        codes = [self.classes_.index(label) for label in rows.labels]
        return float(-np.log(np.maximum(probabilities[np.arange(len(codes)), codes], 1e-7)).mean())

    def predict_proba(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> np.ndarray:
        """Return the probabilities (N, C) of `classes_` for each text."""
        network = self._fitted()
        texts, pairs = by_position(texts), by_position(pairs)
        check_rows(texts, pairs, len(texts), None)
        return network.probabilities(texts, pairs)

    def predict(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> list[Any]:
        """Return the most likely class of each text; with `multi_label`, the list of its classes."""
        probabilities = self.predict_proba(texts, pairs)
        if self.multi_label:
            rows = (zip(self.classes_, row, strict=True) for row in probabilities >= PRESENT)
            return [[name for name, is_present in row if is_present] for row in rows]
        return [self.classes_[best] for best in probabilities.argmax(axis=1)]

    def save(self, folder: str | Path) -> None:
        """Write a `transformers` folder of the encoder, with the linear layer as an additional file.

        Replaces a classifier that was saved there before; rejects a folder with anything else.
        """
        from safetensors.torch import save_file

        network = self._fitted()
        settings = {
            "classes": self.classes_,
            "learning_rate": self.learning_rate,
            "batch_size": self.batch_size,
            "epochs": self.epochs,
            "updates": self.updates,
            "mixup": self.mixup,
            "dropout": self.dropout,
            "max_length": self.max_length,
            "multi_label": self.multi_label,
        }
        head = {name: value.contiguous() for name, value in network.head.state_dict().items()}
        with atomic_folder(Path(folder), ModelKind.CLASSIFIER.value, _is_classifier) as part:
            network.encoder.save_pretrained(part)
            save_file(head, part / _HEAD_FILE)
            (part / CLASSIFIER_FILE).write_text(json.dumps(settings, ensure_ascii=False, indent=2), encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto") -> TextClassifier:
        """Load a classifier that `save` wrote."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        folder = checked_path(folder)
        if not _is_classifier(folder):
            raise LindaError(f"{folder} is not a saved TextClassifier: it has no {CLASSIFIER_FILE}")
        settings = read_json_object(folder / CLASSIFIER_FILE)
        classes = settings.pop("classes", None)
        try:
            _check_classes(classes)
            classifier = cls(folder, device=device, **settings)
        except (LindaError, TypeError) as error:
            raise LindaError(f"{folder / CLASSIFIER_FILE}: {reason(error)}; save the classifier again") from error
        classifier.classes_ = classes
        encoder = SentenceEncoder.from_pretrained(folder, classifier.max_length)
        network = _Network(encoder, len(classes), classifier.dropout, classifier.multi_label)
        head = check_regular_file(folder / _HEAD_FILE)
        try:
            network.head.load_state_dict(load_file(head))
        except (SafetensorError, OSError, RuntimeError, ValueError) as error:
            raise LindaError(f"{head} does not fit {CLASSIFIER_FILE} ({reason(error)}); save it again") from error
        if not all(weight.isfinite().all() for weight in network.head.parameters()):
            raise LindaError(f"{head} contains numbers that are not finite; save the classifier again")
        classifier._network = network.to(classifier.device).eval()
        return classifier

    def _check_settings(self) -> None:
        for name in ("batch_size", "epochs", "updates"):
            if name != "updates" or self.updates is not None:
                checked_integer(getattr(self, name), name, 1, 10**9)
        checked_integer(self.max_length, "max_length", 4, 10**6)
        checked_number(self.learning_rate, "learning_rate", 0, 10**6)
        checked_number(self.dropout, "dropout", 0, 1)
        checked_kind(self.multi_label, "multi_label", bool, "true or false")
        if self.mixup is not None and not checked_number(self.mixup, "mixup", 0, 10**6) > 0:
            raise LindaError("mixup is 0; it must be above 0, or None to disable it")

    def _fitted(self) -> _Network:
        if self._network is None:
            raise LindaError("this TextClassifier has not been trained; call fit first, or load a saved one")
        return self._network

    def _with_progress(self, updates: range) -> Iterator[int]:
        from tqdm import tqdm

        return iter(tqdm(updates, desc="fine-tuning", unit="update", disable=None if self.progress else True))


def _check_classes(classes: Any) -> None:
    is_list = isinstance(classes, list) and all(isinstance(name, str | int | float) for name in classes)
    if not is_list or len(classes) < 2 or len(set(classes)) < len(classes):
        raise LindaError(f"classes are {shortened(classes)}; they must be a list of different labels")


def _is_classifier(folder: Path) -> bool:
    return kind_of_model(folder) == ModelKind.CLASSIFIER


class _Network(nn.Module):
    def __init__(self, encoder: SentenceEncoder, n_classes: int, dropout: float, multi_label: bool) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(encoder.width, n_classes)
        self.multi_label = multi_label

    def initialize(self, generator: torch.Generator) -> None:
        """Initialize as in fine-tuning of BERT: small normal weights, zero bias."""
        nn.init.normal_(self.head.weight, std=0.02, generator=generator)
        nn.init.zeros_(self.head.bias)

    def logits(self, vectors: Tensor) -> Tensor:
        """Map vectors (B, d) to logits (B, C)."""
        logits: Tensor = self.head(self.dropout(vectors))
        return logits

    @torch.inference_mode()
    def probabilities(self, texts: Sequence[str], pairs: Sequence[str] | None) -> np.ndarray:
        """Return (N, C)."""
        rows = self.encoder.tokenize(texts, pairs)
        logits = self.logits(self.encoder(rows))
        return np.asarray((logits.sigmoid() if self.multi_label else logits.softmax(dim=-1)).cpu().numpy())


def _batches_forever(n_rows: int, batch_size: int, random: np.random.Generator) -> Iterator[list[int]]:
    """Yield random minibatches; every row is used once before any row is used again."""
    while True:
        order = random.permutation(n_rows).tolist()
        yield from (order[start : start + batch_size] for start in range(0, n_rows, batch_size))


def _mixed(vectors: Tensor, targets: Tensor, beta: float, random: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Mix vectors (B, d) and targets (B, C) with those of other rows in the minibatch, all with one ratio."""
    share = float(random.beta(beta, beta))
    other = torch.from_numpy(random.permutation(len(vectors))).to(vectors.device)
    return share * vectors + (1 - share) * vectors[other], share * targets + (1 - share) * targets[other]
