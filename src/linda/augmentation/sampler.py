"""A sampler of imbalanced-learn for texts: fills up rare classes with new texts. Needs the extra `linda[imblearn]`.

    pipeline = imblearn.pipeline.make_pipeline(LindaSampler(), TfidfVectorizer(), LogisticRegression())
    cross_val_score(pipeline, texts, labels, scoring="average_precision")

The new texts of a fold come from its training rows only.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from linda.augmentation import Augmenter
from linda.augmentation.gates import Gates
from linda.augmentation.settings import AugmentationSettings
from linda.errors import LindaError, checked_kind
from linda.methods import AugmentationMethod
from linda.planning.labels import plain

try:
    from imblearn.over_sampling.base import BaseOverSampler
    from imblearn.utils import check_target_type
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import validate_data
except ImportError as error:
    raise LindaError("LindaSampler needs imbalanced-learn: pip install 'linda[imblearn]'") from error


class LindaSampler(BaseOverSampler):
    """Over-sample rare classes with new texts.

    Args:
        sampling_strategy: Which classes are filled up, and how far, as in imbalanced-learn: auto, minority,
            not minority, not majority, all, a ratio of minority to majority, a dict of rows per class, or a callable
            that returns such a dict.
        random_state: Seed, `RandomState` or None.
        method: linda, eda, ssmba, backtranslation, splice, crossover, or an `AugmentationMethod`.
        model: Folder of the method's model, or an `Interpolator`; None for the embedded model.
        engine: Engine that runs a LINDA model given by name: auto, int8 or torch.
        translate: The two models of backtranslation.
        trigrams: Trigram table of crossover: a file written by `linda middles table`.
        partners: Which rows may be mixed with a row: same, any, different, stratified or nearest. The new row always
            has the label of the first parent.
        encoder: Encoder that finds nearest partners.
        ratio: Distribution of the mixing ratio: uniform, beta:0.4, a constant (0.5) or a range (0.2-0.8).
        protect: Words of the parents that a new text must contain, see `AugmentationSettings`.
        gates: The filters for new texts; None for all.
        retries: How often a rejected text is written again.
        batch_size: Rows per batch; does not affect the rows.
        workers: Worker processes; does not affect results.

    Attributes:
        sampling_strategy_: New rows of each class.
        sample_indices_: For each row of the result, its number in the data; for new rows, that of the first parent.
        partner_indices_: The number of the second parent; −1 for originals, and if nothing is mixed.
        alphas_: The share of the first parent; NaN for originals, and if nothing is mixed.

    Example:
        texts, labels = LindaSampler(random_state=0).fit_resample(texts, labels)
    """

    def __init__(
        self,
        *,
        sampling_strategy: float | str | Mapping[Any, int] | Callable[[Any], Mapping[Any, int]] = "auto",
        random_state: Any = None,
        method: str | AugmentationMethod = "linda",
        model: Any = None,
        engine: str = "auto",
        translate: tuple[str, str] | None = None,
        trigrams: str | Path | None = None,
        partners: str = "same",
        encoder: str | Path | None = None,
        ratio: str = "uniform",
        protect: str | Iterable[str] = (),
        gates: Gates | None = None,
        retries: int = 2,
        batch_size: int = 128,
        workers: int = 1,
    ) -> None:
        super().__init__(sampling_strategy=sampling_strategy)
        self.random_state = random_state
        self.method = method
        self.model = model
        self.engine = engine
        self.translate = translate
        self.trigrams = trigrams
        self.partners = partners
        self.encoder = encoder
        self.ratio = ratio
        self.protect = protect
        self.gates = gates
        self.retries = retries
        self.batch_size = batch_size
        self.workers = workers

    def _check_X_y(self, X: Any, y: Any) -> tuple[Any, np.ndarray, bool]:
        if isinstance(y, list) and not y:
            raise LindaError("y is empty; give at least two rows of each class")
        y, is_binarized = check_target_type(np.asarray(y) if isinstance(y, list) else y, indicate_one_vs_all=True)
        validate_data(self, X=X, y=y, reset=True, skip_check_array=True)
        return X, y, is_binarized

    def _fit_resample(self, X: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        texts, shape = _texts_of(X)
        if len(texts) != len(y):
            raise LindaError(f"X has {len(texts):,} texts, but y has {len(y):,} labels")
        labels = y.tolist()
        counts = Counter(labels)
        to_make = {plain(label): int(rows) for label, rows in self.sampling_strategy_.items()}
        targets = {label: counts[label] + rows for label, rows in to_make.items() if rows}
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        new = self._augmenter(targets, seed).augment({"text": texts, "label": labels}) if targets else []
        parents = [row["parent_a"] for row in new]
        self.sample_indices_ = np.array([*range(len(texts)), *parents], dtype=np.int64)
        partners = [-1 if row["parent_b"] is None else row["parent_b"] for row in new]
        self.partner_indices_ = np.array([-1] * len(texts) + partners, dtype=np.int64)
        alphas = [np.nan if row["alpha"] is None else row["alpha"] for row in new]
        self.alphas_ = np.array([np.nan] * len(texts) + alphas, dtype=np.float64)
        is_unicode = isinstance(X, np.ndarray) and X.dtype.kind == "U"
        result = np.array(texts + [row["text"] for row in new], dtype=str if is_unicode else object)
        return result.reshape(-1, *shape), np.concatenate([y, y[parents]]) if parents else y.copy()

    def _augmenter(self, targets: dict[Any, int], seed: int) -> Augmenter:
        names = ("method", "model", "engine", "translate", "trigrams", "partners", "encoder", "ratio", "protect")
        settings = {name: getattr(self, name) for name in (*names, "retries", "batch_size", "workers")}
        if isinstance(self.method, str) and isinstance(self.model, str | Path | None) and self.workers == 1:
            of_method = ("method", "model", "engine", "translate", "trigrams", "protect")
            checked = AugmentationSettings(**{name: settings[name] for name in of_method})  # refuses wrong types
            given = {name: getattr(checked, name) for name in of_method}
            method = _loaded_method(**{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()})
            settings |= {"method": method, "model": None, "engine": "auto", "translate": None, "trigrams": None}
        gates = Gates() if self.gates is None else checked_kind(self.gates, "gates", Gates, "Gates, or None for all")
        return Augmenter(balance=targets, seed=seed, gates=gates, only_new=True, **settings)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False  # only one column of texts
        tags.input_tags.sparse = False
        tags.input_tags.string = True
        tags.sampler_tags.sample_indices = True
        return tags


# Cross-validation clones the sampler for each fold; all clones share the model, and none of them pickles it.
@lru_cache(maxsize=1)
def _loaded_method(**settings: Any) -> AugmentationMethod:
    return AugmentationSettings(**settings).load_method()


def _texts_of(data: Any) -> tuple[list[Any], tuple[int, ...]]:
    """The texts, and the shape of one row: () or (1,)."""
    if hasattr(data, "toarray"):
        raise LindaError("X is a sparse matrix, not texts; put LindaSampler before the vectorizer")
    array = np.asarray(data, dtype=object)
    if array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1):
        return array.ravel().tolist(), array.shape[1:]
    raise LindaError(f"X has the shape {array.shape}; give a list of texts, a Series or one column")
