"""The sampler for imbalanced-learn, with imbalanced-learn and scikit-learn as they are used."""

import pickle
import sys
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from imblearn.over_sampling import RandomOverSampler
from imblearn.pipeline import Pipeline
from imblearn.utils import estimator_checks
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.datasets import make_classification
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score

import linda
from linda import LindaSampler
from linda.augmentation.gates import Gates
from linda.errors import LindaError
from splice import Shout, Splice, sentences

TEXTS = sentences(30)
LABELS = ["no"] * 18 + ["yes"] * 8 + ["maybe"] * 4
OPEN = Gates(**dict.fromkeys(Gates.names(), False))


def sampler(**settings: Any) -> LindaSampler:
    return LindaSampler(**{"method": Splice(), "random_state": 0, "ratio": "0.2-0.8", **settings})


def texts_in(data: Any) -> list[str]:
    return np.asarray(data, dtype=object).ravel().tolist()


EXPECTED, _ = sampler().fit_resample(TEXTS, LABELS)


@pytest.mark.parametrize(
    "data",
    [
        TEXTS,
        [[text] for text in TEXTS],
        np.array(TEXTS),
        np.array(TEXTS, dtype=object),
        np.array(TEXTS, dtype=object)[:, None],
        pd.Series(TEXTS, name="question"),
        pd.Series(TEXTS, name="question", dtype="string"),
        pd.Series(TEXTS, index=range(100, 130), dtype="object"),
        pd.DataFrame({"question": TEXTS}),
    ],
)
def test_texts_of_every_kind_come_back_in_their_kind(data: Any) -> None:
    resampled, labels = sampler().fit_resample(data, LABELS)
    assert type(resampled) is type(data)
    assert texts_in(resampled) == EXPECTED
    assert np.ndim(resampled) == np.ndim(data)
    if isinstance(data, pd.Series):
        assert (resampled.name, resampled.dtype) == (data.name, data.dtype)
    if isinstance(data, pd.DataFrame):
        assert list(resampled.columns) == ["question"]
    if isinstance(data, np.ndarray):
        assert resampled.dtype.kind == data.dtype.kind
    assert Counter(labels) == {"no": 18, "yes": 18, "maybe": 18}


@pytest.mark.parametrize("labels", [np.array(LABELS), pd.Series(LABELS, name="y"), pd.Series(LABELS, dtype="category")])
def test_labels_come_back_in_their_kind(labels: Any) -> None:
    _, resampled = sampler().fit_resample(TEXTS, labels)
    assert type(resampled) is type(labels)
    assert resampled.dtype == labels.dtype
    assert Counter(resampled) == {"no": 18, "yes": 18, "maybe": 18}


def only_maybe(y: Any) -> dict[str, int]:
    return {"maybe": 2 * int((np.asarray(y) == "maybe").sum())}


@pytest.mark.parametrize(
    "strategy",
    ["auto", "minority", "not minority", "not majority", "all", {"yes": 11, "maybe": 4}, {"no": 25}, only_maybe],
)
def test_the_strategy_means_what_it_means_to_imbalanced_learn(strategy: Any) -> None:
    ours, theirs = sampler(sampling_strategy=strategy), RandomOverSampler(sampling_strategy=strategy, random_state=0)
    _, found = ours.fit_resample(TEXTS, LABELS)
    _, expected = theirs.fit_resample(np.array(TEXTS, dtype=object)[:, None], LABELS)
    assert Counter(found) == Counter(expected)
    assert ours.sampling_strategy_ == theirs.sampling_strategy_


def test_a_ratio_of_two_classes() -> None:
    _, labels = sampler(sampling_strategy=0.75).fit_resample(TEXTS, [0] * 20 + [1] * 10)
    assert Counter(labels) == {0: 20, 1: 15}
    with pytest.raises(ValueError, match="remove samples from the minority class"):
        sampler(sampling_strategy=0.1).fit_resample(TEXTS, [0] * 20 + [1] * 10)
    with pytest.raises(ValueError, match="binary"):
        sampler(sampling_strategy=0.75).fit_resample(TEXTS, LABELS)


def test_the_random_state_decides() -> None:
    assert sampler().fit_resample(TEXTS, LABELS)[0] == EXPECTED
    assert sampler(random_state=1).fit_resample(TEXTS, LABELS)[0] != EXPECTED
    state = np.random.RandomState(0)
    one = sampler(random_state=state)
    assert one.fit_resample(TEXTS, LABELS)[0] == EXPECTED
    assert one.fit_resample(TEXTS, LABELS)[0] != EXPECTED  # the state has moved on, as in imbalanced-learn


def test_every_row_can_be_traced_to_its_parents() -> None:
    one = sampler()
    texts, labels = one.fit_resample(TEXTS, LABELS)
    assert one.sample_indices_[:30].tolist() == list(range(30))
    assert (one.partner_indices_[:30] == -1).all()
    assert np.isnan(one.alphas_[:30]).all()
    for text, label, parent, partner, alpha in zip(
        texts[30:], labels[30:], one.sample_indices_[30:], one.partner_indices_[30:], one.alphas_[30:], strict=True
    ):
        assert {word[3:] for word in text.split()} <= {str(parent), str(partner)}
        assert label == LABELS[parent] == LABELS[partner]
        assert 0.2 <= alpha <= 0.8


def test_a_method_that_mixes_nothing_has_no_partners() -> None:
    one = sampler(method=Shout(), sampling_strategy={"maybe": 6})
    texts, _ = one.fit_resample(TEXTS, LABELS)
    assert texts[-1] == f"{TEXTS[one.sample_indices_[-1]]} loudly"
    assert (one.partner_indices_ == -1).all()


def test_nothing_to_make_gives_the_data_back() -> None:
    one = sampler(sampling_strategy={"no": 18})
    texts, labels = one.fit_resample(TEXTS, LABELS)
    assert (texts, labels) == (TEXTS, LABELS)
    assert one.sample_indices_.tolist() == list(range(30))


def test_a_class_of_one_row_is_left_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="single row.*'maybe'"):
        _, labels = sampler().fit_resample(TEXTS[:27], LABELS[:27])
    assert Counter(labels) == {"no": 18, "yes": 18, "maybe": 1}


@pytest.mark.parametrize(
    ("data", "settings", "message"),
    [
        (np.zeros((30, 2)), {}, r"X has the shape \(30, 2\); give a list of texts"),
        ([*TEXTS[:29], 5], {}, "row 29: 'text' is 5, not a text"),
        ([*TEXTS[:29], " "], {}, "row 29: 'text' is empty"),
        (TfidfVectorizer().fit_transform(TEXTS), {}, "put LindaSampler before the vectorizer"),
        (TEXTS, {"ratio": "2"}, "'2' is not a ratio"),
        (TEXTS, {"method": "magic"}, "unknown method 'magic'"),
        (TEXTS, {"method": "backtranslation"}, "two translation models"),
        (TEXTS[:20], {}, "20 texts, but y has 30 labels|inconsistent numbers of samples"),
    ],
)
def test_bad_input_is_told(data: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sampler(**settings).fit_resample(data, LABELS)


# --- estimator checks ------------------------------------------------------------------------------------------


def test_parameters_can_be_read_set_and_cloned() -> None:
    one = LindaSampler(ratio="0.3", random_state=5)
    assert one.get_params()["ratio"] == "0.3"
    one.set_params(ratio="0.4", method="eda")
    copy = clone(one)
    assert copy is not one
    assert copy.get_params() == one.get_params()
    assert not hasattr(copy, "sample_indices_")


def test_it_is_pickled_without_the_model(tiny_model_folder: Path) -> None:
    one = LindaSampler(model=str(tiny_model_folder), gates=OPEN, random_state=0)
    texts = ["the cat sat", "a dog ran", "the old man saw", "a red city", "the small river", "what was it"]
    first = one.fit_resample(texts, [0, 0, 0, 0, 1, 1])
    state = pickle.dumps(one)
    assert len(state) < 2000
    assert b"torch" not in state
    assert pickle.loads(state).fit_resample(texts, [0, 0, 0, 0, 1, 1]) == first


def test_clones_share_one_model(tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads = []
    original = linda.Interpolator.from_pretrained
    monkeypatch.setattr(linda.Interpolator, "from_pretrained", lambda *a, **k: loads.append(a) or original(*a, **k))
    texts = ["the cat sat", "a dog ran", "the old man saw", "a red city", "the small river", "what was it"]
    one = LindaSampler(model=tiny_model_folder, gates=OPEN)
    for _ in range(3):
        clone(one).fit_resample(texts, [0, 0, 0, 0, 1, 1])
    assert len(loads) == 1


def test_without_imbalanced_learn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imblearn.over_sampling.base", None)
    monkeypatch.delitem(sys.modules, "linda.augmentation.sampler")
    with pytest.raises(LindaError, match=r"pip install 'linda\[imblearn\]'"):
        _ = linda.LindaSampler


def text_data() -> tuple[np.ndarray, np.ndarray]:
    """What imbalanced-learn's checks use, with a text of three words for each row of numbers."""
    numbers, y = make_classification(
        n_samples=120, n_classes=3, n_informative=4, weights=[0.2, 0.3, 0.5], random_state=0
    )
    texts = [" ".join(f"w{abs(number):.4f}" for number in row[:6]) for row in numbers]
    return np.array(texts, dtype=object)[:, None], y


CHECKS = [
    "check_target_type",
    "check_samplers_one_label",
    "check_samplers_fit_resample",
    "check_samplers_sampling_strategy_fit_resample",
    "check_samplers_pandas",
    "check_samplers_list",
    "check_samplers_multiclass_ova",
    "check_samplers_2d_target",
    "check_samplers_sample_indices",
    "check_sampler_get_feature_names_out",
    "check_sampler_get_feature_names_out_pandas",
]
# Those that need vectors: random numbers, sparse columns, a dtype of numbers.
OF_VECTORS = [
    "check_samplers_fit",
    "check_samplers_pandas_sparse",
    "check_samplers_string",  # expects that no new text is made
    "check_samplers_preserve_dtype",
]


@pytest.mark.parametrize("name", CHECKS)
def test_the_checks_of_imbalanced_learn_pass_on_texts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimator_checks, "sample_dataset_generator", text_data)
    monkeypatch.setattr(estimator_checks, "assert_allclose", np.testing.assert_array_equal)
    getattr(estimator_checks, name)("LindaSampler", sampler())


def test_every_check_of_imbalanced_learn_is_known() -> None:
    asked = {check.__name__ for check in estimator_checks._yield_sampler_checks(sampler())}
    assert asked == {*CHECKS, *OF_VECTORS}


# --- in pipelines ---------------------------------------------------------------------------------------------


class Witness(BaseEstimator, TransformerMixin):
    """Passes texts on, and keeps what it saw in training and in prediction."""

    trained: ClassVar[list[list[str]]] = []
    predicted: ClassVar[list[list[str]]] = []

    def fit(self, X: Any, y: Any = None) -> "Witness":
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        Witness.trained.append(list(X))
        return X

    def transform(self, X: Any) -> Any:
        Witness.predicted.append(list(X))
        return X


def pipeline(**settings: Any) -> Pipeline:
    steps = [("linda", sampler(**settings)), ("witness", Witness()), ("tfidf", TfidfVectorizer())]
    return Pipeline([*steps, ("classifier", LogisticRegression())])


@pytest.mark.parametrize("kind", [list, np.array, pd.Series])
def test_new_rows_are_only_ever_in_training_folds(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Witness, "trained", [])
    monkeypatch.setattr(Witness, "predicted", [])
    folds = StratifiedKFold(4, shuffle=True, random_state=0)
    scores = cross_val_score(pipeline(), kind(TEXTS), np.array(LABELS), cv=folds, error_score="raise")
    assert len(scores) == len(Witness.trained) == len(Witness.predicted) == 4
    for (train, test), trained, predicted in zip(
        folds.split(TEXTS, LABELS), Witness.trained, Witness.predicted, strict=True
    ):
        assert predicted == [TEXTS[row] for row in test]
        assert trained[: len(train)] == [TEXTS[row] for row in train]
        assert len(trained) > len(train)
        words = {word for text in trained for word in text.split()}
        assert {int(word[3:]) for word in words} == set(train.tolist())  # every word tells its row


def test_a_grid_search_sets_the_samplers_parameters() -> None:
    grid = {"linda__ratio": ["0.3-0.7", "0.2-0.8"], "linda__sampling_strategy": ["auto", "minority"]}
    search = GridSearchCV(pipeline(), grid, cv=2, error_score="raise").fit(TEXTS, LABELS)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_estimator_.predict(TEXTS[:1]).tolist() in [["no"], ["yes"], ["maybe"]]


def test_jobs_run_in_processes() -> None:
    settings: dict[str, Any] = {"cv": 2, "error_score": "raise"}
    own = Pipeline([("linda", LindaSampler(method="eda", random_state=0)), *pipeline().steps[2:]])
    texts = [f"The old film number {row} was a great success in the city." for row in range(30)]
    alone = cross_val_score(own, texts, LABELS, **settings)
    assert cross_val_score(own, texts, LABELS, n_jobs=2, **settings).tolist() == alone.tolist()


@pytest.mark.parametrize("protect", [{"film"}, frozenset({"film"}), ["film"], ("film",), {"film": 1}.keys(), "film"])
def test_protected_words_may_be_any_collection(protect: Any) -> None:
    texts = [f"the film of {name} was long and slow" for name in ("anna", "ben", "cora", "dan", "eva", "finn")]
    made, _ = LindaSampler(method="eda", protect=protect, random_state=0).fit_resample(texts, [0, 0, 0, 0, 1, 1])
    assert len(made) == 8
    assert all("film" in text for text in made)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"protect": (word for word in ["film"])},
            "protect is <generator .*, which can be read only once",
        ),
        ({"protect": [["film"]]}, r"protect is \['film'\]; it must be a text"),
        ({"protect": 3}, "protect is 3; it must be a text or a list of texts"),
        ({"translate": {"there", "back"}}, "translate is .*; it must be a pair of models"),
        ({"engine": ["int8"]}, r"engine is \['int8'\]; it must be a text: auto, int8 or torch"),
    ],
)
def test_settings_of_the_wrong_type_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(LindaError, match=message):
        LindaSampler(method="eda", **settings).fit_resample(TEXTS, LABELS)
