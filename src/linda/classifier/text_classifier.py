"""A text classifier for hard and soft labels: the benchmark's student, and the teacher of predicted labels.

    classifier = TextClassifier(epochs=30, batch_size=8).fit(texts, labels)
    classifier.predict(["How far is the moon?"])

The loss is cross-entropy against a distribution. (`transformers`' own Trainer takes float vectors for
multi-label targets and scores every class by itself.) Everything random in `fit` follows from its seed: the
new head, the order of the rows and the dropout.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from linda.classifier.encoder import SentenceEncoder, find_encoder, known_learning_rate
from linda.classifier.losses import soft_cross_entropy
from linda.errors import LindaError, checked_integer, checked_number, reason, shortened
from linda.files.folders import atomic_folder
from linda.files.jsonfile import read_json_object
from linda.files.paths import check_regular_file
from linda.model.pretrained import CLASSIFIER_FILE, ModelKind, find_device, kind_of_model

_HEAD_FILE = "head.safetensors"

# Separate streams for what one seed decides, so that one more draw here never shifts the others.
_ORDER, _MIXUP = range(2)


class TextClassifier:
    """Fine-tunes an encoder and a linear layer on top of its sentence vector.

    encoder: folder or hub name of a `transformers` encoder; None is all-MiniLM-L6-v2.
    learning_rate: of Adam, fixed; None is the encoder's own (3e-5, the paper's, where none is known).
    updates: how many minibatches to train on, whatever the number of rows; None is `epochs` passes over them.
    mixup: mix sentence vectors and labels within each minibatch, λ ~ Beta(mixup, mixup), as Guo et al. 2019.
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
        device: str = "auto",
        progress: bool = False,
    ) -> None:
        self.encoder = find_encoder(encoder)
        self.learning_rate = learning_rate or known_learning_rate(encoder) or 3e-5
        self.batch_size = batch_size
        self.epochs = epochs
        self.updates = updates
        self.mixup = mixup
        self.dropout = dropout
        self.max_length = max_length
        self.device = find_device(device)
        self.progress = progress
        self.classes_: list[Any] = []
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
    ) -> TextClassifier:
        """Trains from the pretrained encoder, never from an earlier fit; one that was loaded, from what was saved.

        labels: one class per text, or distributions (N, C) over `classes`.
        pairs: the second text of each row, where a row is a pair.
        weights: how much each row counts in the loss, beside the others of its minibatch.
        classes: all classes there are, in order; needed with distributions, and where rows show only some.
        """
        texts, pairs, weights = _by_position(texts), _by_position(pairs), _by_position(weights)
        targets, self.classes_ = _as_distributions(labels, classes)
        _check_rows(texts, pairs, len(targets), weights)
        loss_weights = torch.ones(len(texts)) if weights is None else torch.tensor(weights, dtype=torch.float32)
        with _seeded(seed, self.device):
            encoder = SentenceEncoder.from_pretrained(self.encoder, self.max_length)
            network = _Network(encoder, len(self.classes_), self.dropout)
            network.initialize(torch.Generator().manual_seed(seed))
            network.to(self.device).train()
            with encoder.narrowed(chain(texts, () if pairs is None else pairs)):
                self._train(network, texts, pairs, targets, loss_weights, seed)
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
    ) -> None:
        encoder = network.encoder
        optimizer = torch.optim.Adam(network.parameters(), lr=self.learning_rate, fused=True)
        batches = _batches_forever(len(texts), self.batch_size, _random(seed, _ORDER))
        mixing = _random(seed, _MIXUP)
        updates = self.updates or self.epochs * math.ceil(len(texts) / self.batch_size)
        for _ in self._with_progress(range(updates)):
            batch = next(batches)
            second = None if pairs is None else [pairs[row] for row in batch]
            vectors = encoder(encoder.tokenize([texts[row] for row in batch], second))  # (B, d)
            target = targets[batch].to(self.device)
            if self.mixup is not None:
                vectors, target = _mixed(vectors, target, self.mixup, mixing)
            loss = soft_cross_entropy(network.logits(vectors), target, weights[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    @torch.inference_mode()
    def predict_proba(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> np.ndarray:
        """The probability (N, C) of each of `classes_` for each text."""
        network = self._fitted()
        texts, pairs = _by_position(texts), _by_position(pairs)
        _check_rows(texts, pairs, len(texts), None)
        rows = network.encoder.tokenize(texts, pairs)
        return np.asarray(network.logits(network.encoder(rows)).softmax(dim=-1).cpu().numpy())

    def predict(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> list[Any]:
        """The likeliest class of each text."""
        return [self.classes_[best] for best in self.predict_proba(texts, pairs).argmax(axis=1)]

    def save(self, folder: str | Path) -> None:
        """Writes the encoder as `transformers` does, and the head beside it, into a folder.

        A classifier that was saved there before is replaced; a folder of anything else is left alone.
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
        }
        head = {name: value.contiguous() for name, value in network.head.state_dict().items()}
        with atomic_folder(Path(folder), ModelKind.CLASSIFIER.value, _is_classifier) as part:
            network.encoder.save_pretrained(part)
            save_file(head, part / _HEAD_FILE)
            (part / CLASSIFIER_FILE).write_text(json.dumps(settings, ensure_ascii=False, indent=2), encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto") -> TextClassifier:
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        folder = Path(folder)
        if not _is_classifier(folder):
            raise LindaError(f"{folder} is not a saved TextClassifier: it has no {CLASSIFIER_FILE}")
        settings = read_json_object(folder / CLASSIFIER_FILE)
        classes = settings.pop("classes", None)
        try:
            _check_classes(classes)
            _check_settings(settings)
            classifier = cls(folder, device=device, **settings)
        except (LindaError, TypeError) as error:
            raise LindaError(f"{folder / CLASSIFIER_FILE}: {reason(error)}; save the classifier anew") from error
        classifier.classes_ = classes
        encoder = SentenceEncoder.from_pretrained(folder, classifier.max_length)
        network = _Network(encoder, len(classes), classifier.dropout)
        head = check_regular_file(folder / _HEAD_FILE)
        try:
            network.head.load_state_dict(load_file(head))
        except (SafetensorError, OSError, RuntimeError, ValueError) as error:
            raise LindaError(f"{head} does not fit {CLASSIFIER_FILE} ({reason(error)}); save it anew") from error
        if not all(weight.isfinite().all() for weight in network.head.parameters()):
            raise LindaError(f"{head} holds numbers that are not finite; save the classifier anew")
        classifier._network = network.to(classifier.device).eval()
        return classifier

    def _fitted(self) -> _Network:
        if self._network is None:
            raise LindaError("this TextClassifier has not been trained: call fit first, or load a saved one")
        return self._network

    def _with_progress(self, updates: range) -> Iterator[int]:
        from tqdm import tqdm

        return iter(tqdm(updates, desc="fine-tuning", unit="update", disable=None if self.progress else True))


def _check_classes(classes: Any) -> None:
    is_list = isinstance(classes, list) and all(isinstance(name, str | int | float) for name in classes)
    if not is_list or len(classes) < 2 or len(set(classes)) < len(classes):
        raise LindaError(f"classes are {shortened(classes)}; they must be a list of different labels")


def _check_settings(settings: dict[str, Any]) -> None:
    """What a file says; of what is not there, the defaults hold."""
    for name in ("batch_size", "epochs", "updates"):
        if settings.get(name) is not None:
            checked_integer(settings[name], name, 1, 10**9)
    if settings.get("max_length") is not None:
        checked_integer(settings["max_length"], "max_length", 4, 10**6)
    for name in ("learning_rate", "mixup", "dropout"):
        if settings.get(name) is not None:
            checked_number(settings[name], name, 0, 1 if name == "dropout" else 10**6)


def _is_classifier(folder: Path) -> bool:
    return kind_of_model(folder) == ModelKind.CLASSIFIER


class _Network(nn.Module):
    def __init__(self, encoder: SentenceEncoder, n_classes: int, dropout: float) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(encoder.width, n_classes)

    def initialize(self, generator: torch.Generator) -> None:
        """A head like that of BERT's own fine-tuning: small normal weights, no bias."""
        nn.init.normal_(self.head.weight, std=0.02, generator=generator)
        nn.init.zeros_(self.head.bias)

    def logits(self, vectors: Tensor) -> Tensor:
        """(B, d) → (B, C)"""
        logits: Tensor = self.head(self.dropout(vectors))
        return logits


def _as_distributions(labels: Sequence[Any] | np.ndarray, classes: Sequence[Any] | None) -> tuple[Tensor, list[Any]]:
    """Labels as rows (N, C) that sum to 1, and the classes that the C columns stand for."""
    array = np.asarray(labels)
    if array.ndim == 2:
        if classes is None or len(classes) != array.shape[1]:
            count = "none" if classes is None else str(len(classes))
            raise LindaError(
                f"distributions over {array.shape[1]} classes need as many names in `classes`, got {count}"
            )
        wrong = ~np.isfinite(array).all(axis=1) | (array < 0).any(axis=1) | (np.abs(array.sum(axis=1) - 1) > 1e-3)
        if wrong.any():
            row = int(wrong.argmax())
            raise LindaError(f"label {row} is no distribution: {array[row].tolist()} must be ≥ 0 and sum to 1")
        return torch.tensor(array, dtype=torch.float32), _plain(classes)
    names = _plain(labels)
    known = sorted(set(names)) if classes is None else _plain(classes)
    column: dict[Hashable, int] = {name: number for number, name in enumerate(known)}
    unknown = next((name for name in names if name not in column), None)
    if unknown is not None:
        raise LindaError(f"the label {unknown!r} is none of the classes {known}")
    return torch.eye(len(known))[[column[name] for name in names]], known


def _plain(values: Iterable[Any]) -> list[Any]:
    """Python's own values for numpy's: they are saved as JSON."""
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def _by_position(column: Any) -> Any:
    """A numpy or pandas column as a list: rows are taken by place, and pandas' [] looks for its index instead."""
    return column.tolist() if hasattr(column, "tolist") else column


def _check_rows(
    texts: Sequence[str], pairs: Sequence[str] | None, n_labels: int, weights: Sequence[float] | None
) -> None:
    if isinstance(texts, str):
        raise LindaError("texts must be a list of texts, got one string")
    if not len(texts):
        raise LindaError("there are no texts to classify")
    for what, column in (("labels", range(n_labels)), ("pairs", pairs), ("weights", weights)):
        if column is not None and len(column) != len(texts):
            raise LindaError(f"{len(texts)} texts but {len(column)} {what}: each text needs one")


def _batches_forever(n_rows: int, batch_size: int, random: np.random.Generator) -> Iterator[list[int]]:
    """Random minibatches, every row once before any row again."""
    while True:
        order = random.permutation(n_rows).tolist()
        yield from (order[start : start + batch_size] for start in range(0, n_rows, batch_size))


def _mixed(vectors: Tensor, targets: Tensor, beta: float, random: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Vectors (B, d) and targets (B, C), each mixed with another of the minibatch, all by one share."""
    share = float(random.beta(beta, beta))
    other = torch.from_numpy(random.permutation(len(vectors))).to(vectors.device)
    return share * vectors + (1 - share) * vectors[other], share * targets + (1 - share) * targets[other]


def _random(seed: int, stream: int) -> np.random.Generator:
    return np.random.default_rng([seed, stream])


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Dropout layers draw from torch's own random state: it is set for the block and put back after it."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
