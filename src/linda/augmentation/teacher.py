"""The teacher that labels new texts (`labels="predicted"`): fine-tuned on the originals, or any trained classifier."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from linda.augmentation.examples import Examples, Table
from linda.augmentation.labels import LabelName, shown
from linda.errors import LindaError
from linda.model.pretrained import ModelKind, find_device, kind_of_model, load_pretrained

_BATCH = 32


def fit_teacher(examples: Examples, encoder: str | Path | None = None, *, seed: int = 0, progress: bool = False) -> Any:
    """A `TextClassifier` fine-tuned on the originals. It reads their texts as it needs them."""
    from linda.classifier import TextClassifier

    rows = np.flatnonzero(examples.labels.codes >= 0)
    texts = _Column(examples.table, examples.text, rows)
    pairs = None if examples.pair is None else _Column(examples.table, examples.pair, rows)
    names = examples.labels.names
    labels: Any = [names[code] for code in examples.labels.codes[rows]]
    if examples.labels.soft is not None:
        labels = examples.labels.distributions(rows)
    teacher = TextClassifier(encoder, progress=progress)
    return teacher.fit(texts, labels, pairs, classes=names, seed=seed)


def load_teacher(folder: str | Path, names: Sequence[LabelName]) -> Any:
    """A saved `TextClassifier`, or any `transformers` folder for sequence classification."""
    from linda.classifier import TextClassifier

    if not Path(folder).is_dir():
        raise LindaError(f"there is no folder {str(folder)!r} with a teacher")
    if kind_of_model(folder) == ModelKind.CLASSIFIER:
        return TextClassifier.load(folder)
    return FolderTeacher(folder, names)


class FolderTeacher:
    """A `transformers` classifier with the two things a teacher has: `classes_` and `predict_proba`."""

    def __init__(self, folder: str | Path, names: Sequence[LabelName]) -> None:
        failure = f"the teacher in {str(folder)!r} cannot be loaded"
        self._model, self._tokenizer = load_pretrained("AutoModelForSequenceClassification", folder, failure)
        self._model.eval().to(find_device())
        self.classes_ = _classes(self._model.config.id2label, names)

    def predict_proba(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> np.ndarray:
        """(N, C); texts beyond the classifier's window are cut, as its own training did."""
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
    """The classifier's own label names as the data's labels: by name, or by number where it has no names."""
    own = [id2label[number] for number in sorted(id2label)]
    by_text = {str(name): name for name in names}
    if set(own) <= set(by_text):
        return [by_text[label] for label in own]
    if own == [f"LABEL_{number}" for number in range(len(names))]:
        return list(names)
    raise LindaError(f"the teacher's labels are {shown(own)}, the data's {shown(names)}; they must be the same")


class _Column(Sequence[str]):
    """One text column of the kept rows, read when asked for."""

    def __init__(self, table: Table, column: str, rows: np.ndarray) -> None:
        self._table, self._column, self._rows = table, column, rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return self._table.fetch(self._column, self._rows[place].tolist())
        return str(self._table.fetch(self._column, [int(self._rows[place])])[0])

    def __iter__(self) -> Iterator[str]:
        return (self[place] for place in range(len(self)))
