"""Classifiers that predict labels of new rows: fine-tuned on the originals, or loaded."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from linda.augmentation.settings import AugmentationSettings
from linda.errors import LindaError
from linda.model.pretrained import ModelKind, find_device, kind_of_model, load_pretrained
from linda.planning.examples import Examples, Table
from linda.planning.labels import LabelName, shown

_BATCH = 32


def find_teacher(examples: Examples, settings: AugmentationSettings) -> Any:
    """The teacher, loaded or fine-tuned; None if labels are not predicted."""
    if settings.labels != "predicted":
        return None
    if settings.teacher is None:
        return fit_teacher(examples, settings.encoder, seed=settings.seed, progress=settings.progress)
    is_folder = isinstance(settings.teacher, str | Path)
    return load_teacher(settings.teacher, examples.labels.names) if is_folder else settings.teacher


def fit_teacher(examples: Examples, encoder: str | Path | None = None, *, seed: int = 0, progress: bool = False) -> Any:
    """Fine-tune a `TextClassifier` on the originals.

    Args:
        examples: The rows. Their texts are read on demand.
        encoder: Folder or hub name of the encoder to start from; None for all-MiniLM-L6-v2.
        seed: Seed of the fine-tuning.
        progress: Show a progress bar.

    Returns:
        The classifier.

    Example:
        fit_teacher(examples, seed=1).predict_proba(["Who won the race?"])
    """
    from linda.classifier import TextClassifier

    rows = examples.kept
    columns = [_Column(examples.table, column, rows) for column in examples.text_columns]
    known = examples.labels
    labels: Any = known.most_likely(rows) if known.soft is None else known.distributions(rows)
    teacher = TextClassifier(encoder, progress=progress)
    pairs = columns[1] if len(columns) > 1 else None
    return teacher.fit(columns[0], labels, pairs, classes=known.names, seed=seed)


def load_teacher(folder: str | Path, names: Sequence[LabelName]) -> Any:
    """Load a saved `TextClassifier`, or any `transformers` model for sequence classification."""
    from linda.classifier import TextClassifier

    if not Path(folder).is_dir():
        raise LindaError(f"there is no folder {str(folder)!r}; give the folder of a classifier")
    if kind_of_model(folder) == ModelKind.CLASSIFIER:
        return TextClassifier.load(folder)
    return FolderTeacher(folder, names)


class FolderTeacher:
    """A `transformers` classifier with the interface of a teacher: `classes_` and `predict_proba`."""

    def __init__(self, folder: str | Path, names: Sequence[LabelName]) -> None:
        failure = f"the teacher in {str(folder)!r} cannot be loaded"
        self._model, self._tokenizer = load_pretrained("AutoModelForSequenceClassification", folder, failure)
        self._model.eval().to(find_device())
        self.classes_ = _classes(self._model.config.id2label, names)

    def predict_proba(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> np.ndarray:
        """Probabilities (N, C). Texts that exceed the classifier's window are truncated, as in its training."""
        import torch

        columns = [list(texts)] if pairs is None else [list(texts), list(pairs)]
        limit = getattr(self._model.config, "max_position_embeddings", 512)
        answers = []
        for start in range(0, len(texts), _BATCH):
            inputs = self._tokenizer(
                *(column[start : start + _BATCH] for column in columns),
                truncation=True,
                max_length=min(limit, self._tokenizer.model_max_length),
                padding=True,
                return_tensors="pt",
            )
            with torch.inference_mode():
                logits = self._model(**inputs.to(self._model.device)).logits
            answers.append(logits.double().softmax(dim=-1).cpu().numpy())
        return np.concatenate(answers)


def _classes(id2label: dict[int, str], names: Sequence[LabelName]) -> list[LabelName]:
    """The classifier's labels as labels of the data: matched by name, or by number if it has no names."""
    own = [id2label[number] for number in sorted(id2label)]
    by_text = {str(name): name for name in names}
    if set(own) <= set(by_text):
        return [by_text[label] for label in own]
    if own == [f"LABEL_{number}" for number in range(len(names))]:
        return list(names)
    raise LindaError(f"the teacher's classes are {shown(own)}, those of the data {shown(names)}; they must be the same")


class _Column(Sequence[str]):
    """A text column of these rows, each read on demand."""

    def __init__(self, table: Table, column: str, rows: np.ndarray) -> None:
        self._table, self._column, self._rows = table, column, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: Any) -> Any:
        return self._table.fetch(self._column, [int(self._rows[place])])[0]
