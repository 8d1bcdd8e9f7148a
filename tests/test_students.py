"""Every student learns hard labels, soft labels and weights, on small real rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linda.classifier.contrastive import ContrastiveClassifier, draw_row_pairs
from linda.classifier.probe import LinearProbe
from linda.classifier.students import StudentSettings, find_student, make_student
from linda.classifier.text_pipeline import TextPipeline, tfidf_pipeline
from linda.classifier.vectors import SentenceVectors, shared_vectors
from linda.classifier.weighted_estimator import WeightedEstimator, expand_soft_labels
from linda.errors import LindaError
from tiny_encoder import save_tiny_bert

TEXTS = [
    f"{start} {thing} is {word}" for start in ("the", "a") for thing in ("film", "city") for word in ("good", "bad")
]
LABELS = ["pos", "neg"] * 4
EVERY = ["finetune", "probe", "setfit", "tfidf", "students_of_tests:pipeline"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny_bert(tmp_path_factory.mktemp("tiny") / "bert"))


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module in the working directory, as a user writes it."""
    (tmp_path / "students_of_tests.py").write_text(
        "from sklearn.feature_extraction.text import CountVectorizer\n"
        "from sklearn.linear_model import LogisticRegression, Ridge\n"
        "from sklearn.naive_bayes import ComplementNB\n"
        "from sklearn.neighbors import KNeighborsClassifier\n"
        "from sklearn.pipeline import make_pipeline\n"
        "from sklearn.svm import LinearSVC\n"
        "def pipeline(): return make_pipeline(CountVectorizer(), LogisticRegression(C=100))\n"
        "bayes = make_pipeline(CountVectorizer(), ComplementNB())\n"
        "neighbours = make_pipeline(CountVectorizer(), KNeighborsClassifier(1))\n"
        "margins = make_pipeline(CountVectorizer(), LinearSVC())\n"
        "number = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def student(name: str, encoder: str, **more: Any) -> Any:
    settings = {"learning_rate": 1e-2, "batch_size": 4, "updates": 60, "contrastive_updates": 40, **more}
    return make_student(name, StudentSettings(encoder, 32, **settings))


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.usefixtures("own_module")
def test_learns_hard_labels_and_repeats_itself(name: str, encoder: str) -> None:
    first, second = (student(name, encoder).fit(TEXTS, LABELS, seed=3) for _ in range(2))
    assert first.classes_ == ["neg", "pos"]
    probabilities = first.predict_proba(TEXTS)
    assert [first.classes_[code] for code in probabilities.argmax(axis=1)] == LABELS
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(probabilities, second.predict_proba(TEXTS), atol=1e-5)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.usefixtures("own_module")
def test_soft_labels_and_weights_move_the_prediction(name: str, encoder: str) -> None:
    soft = np.array([[0.2, 0.8], [0.6, 0.4]] * 4)
    good = student(name, encoder).fit(TEXTS, soft, classes=["neg", "pos"]).predict_proba(TEXTS)[:, 1].mean()
    heavy = [1.0 if label == "pos" else 5.0 for label in LABELS]
    weighted = student(name, encoder).fit(TEXTS, soft, None, heavy, classes=["neg", "pos"])
    assert good == pytest.approx(0.6, abs=0.12)  # the mean label
    assert weighted.predict_proba(TEXTS)[:, 1].mean() < good


@pytest.mark.parametrize("name", ["probe", "setfit", "tfidf"])
def test_pairs_are_read_whole(name: str, encoder: str) -> None:
    fitted = student(name, encoder).fit(["the film"] * 8, LABELS, [text.split()[-1] for text in TEXTS])
    assert fitted.predict_proba(["the film"] * 2, ["good", "bad"]).argmax(axis=1).tolist() == [1, 0]


@pytest.mark.parametrize("name", ["probe", "setfit", "tfidf"])
def test_classes_that_training_does_not_show_have_no_probability(name: str, encoder: str) -> None:
    fitted = student(name, encoder).fit(TEXTS[:4], LABELS[:4], classes=["neg", "neutral", "pos"])
    assert (fitted.predict_proba(TEXTS)[:, 1] == 0).all()
    single = student(name, encoder).fit(TEXTS[:1], LABELS[:1], classes=["neg", "pos"])
    np.testing.assert_array_equal(single.predict_proba(TEXTS), [[0, 1]] * 8)


def test_soft_labels_are_weighted_hard_rows() -> None:
    targets = np.array([[1.0, 0.0], [0.25, 0.75]])
    rows, codes, weights = expand_soft_labels(targets, np.array([1.0, 2.0]))
    assert (rows.tolist(), codes.tolist(), weights.tolist()) == ([0, 1, 1], [0, 0, 1], [1.0, 0.5, 1.5])


def test_document_frequencies_count_texts_not_labels() -> None:
    soft = np.full((8, 2), 0.5)
    hard = TextPipeline(tfidf_pipeline()).fit(TEXTS, LABELS)
    mixed = TextPipeline(tfidf_pipeline()).fit(TEXTS, soft, classes=["neg", "pos"])
    np.testing.assert_array_equal(hard._features[0].idf_, mixed._features[0].idf_)


@pytest.mark.parametrize("name", ["probe", "setfit", "tfidf"])
def test_smote_raises_the_probability_of_the_rare_class(name: str, encoder: str) -> None:
    texts, labels = [TEXTS[0], TEXTS[2], *TEXTS[1::2] * 4], ["pos"] * 2 + ["neg"] * 16
    plain, filled = (student(name, encoder, smote=smote).fit(texts, labels) for smote in (False, True))
    assert filled.predict_proba(TEXTS)[:, 1].mean() > plain.predict_proba(TEXTS)[:, 1].mean()
    one = student(name, encoder, smote=True).fit(texts[1:], labels[1:])  # nothing to interpolate with
    assert one.predict_proba(TEXTS).shape == (8, 2)


def test_smote_lies_between_vectors_of_the_class() -> None:
    from sklearn.neighbors import KNeighborsClassifier

    vectors = np.array([[0.0, 0.0], [0.0, 1.0], *([5.0, n] for n in range(6))])
    targets = np.eye(2)[[1, 1, 0, 0, 0, 0, 0, 0]]
    fitted = WeightedEstimator(KNeighborsClassifier(1), smote=True).fit(vectors, targets, np.ones(8))
    seen = fitted._fitted._fit_X[fitted._fitted._y == 1]
    assert len(seen) == 6
    assert (seen[:, 0] == 0).all()
    assert ((seen[:, 1] >= 0) & (seen[:, 1] <= 1)).all()


@pytest.mark.usefixtures("own_module")
def test_a_pipeline_by_import_path() -> None:
    assert find_student("students_of_tests:pipeline").has_vectors
    hard = make_student("students_of_tests:neighbours", StudentSettings()).fit(TEXTS, LABELS)
    assert hard.predict_proba(TEXTS[:1]).tolist() == [[0, 1]]
    bayes = make_student("students_of_tests:bayes", StudentSettings()).fit(TEXTS, LABELS)
    assert bayes.predict_proba(TEXTS).argmax(axis=1).tolist() == [1, 0] * 4
    with pytest.raises(LindaError, match=r"KNeighborsClassifier.fit has no sample_weight"):
        hard.fit(TEXTS, np.full((8, 2), 0.5), classes=["neg", "pos"])


@pytest.mark.usefixtures("own_module")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bert", "unknown student 'bert'; choose from finetune, probe, setfit, tfidf, or a scikit-learn pipeline"),
        ("no_such_module:pipeline", "cannot import the student 'no_such_module:pipeline': ModuleNotFoundError"),
        ("students_of_tests:nothing", "cannot import the student 'students_of_tests:nothing': AttributeError"),
        ("students_of_tests:number", "cannot import the student 'students_of_tests:number': TypeError"),
        ("students_of_tests:Ridge", "Ridge has no predict_proba"),
        ("students_of_tests:margins", "LinearSVC has no predict_proba; .*CalibratedClassifierCV"),
    ],
)
def test_bad_students(name: str, message: str) -> None:
    with pytest.raises(LindaError, match=message):
        make_student(find_student(name).name, StudentSettings())


def test_every_text_is_encoded_once(encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = shared_vectors(encoder, 31)
    assert shared_vectors(encoder, 31) is vectors
    sizes = []
    tokenize = vectors._encoder.tokenize
    monkeypatch.setattr(
        vectors._encoder, "tokenize", lambda texts, pairs: sizes.append(len(texts)) or tokenize(texts, pairs)
    )
    first = vectors([*TEXTS, *TEXTS])
    np.testing.assert_array_equal(vectors(TEXTS[::-1]), first[:8][::-1])
    vectors([*TEXTS, "one more"])
    assert sizes == [8, 1]
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1, atol=1e-6)


def test_old_texts_make_room(encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linda.classifier.vectors._CACHED_TEXTS", 4)
    vectors = SentenceVectors(shared_vectors(encoder, 31)._encoder)
    assert vectors(TEXTS).shape[0] == 8
    assert [text for text, _ in vectors._known] == TEXTS[4:]


def test_pairs_for_contrast_are_half_of_one_class() -> None:
    codes = np.array([0, 0, 0, 1, 1, 2])
    random = np.random.default_rng(0)
    for _ in range(50):
        first, second = draw_row_pairs(codes, 8, random)
        assert (codes[first] == codes[second]).tolist() == [True] * 4 + [False] * 4
        assert all(a != b or codes[a] == 2 for a, b in zip(first, second, strict=True))


def test_contrast_brings_a_class_together(encoder: str) -> None:
    plain = LinearProbe(encoder, max_length=32)._vectors(TEXTS)
    fitted = ContrastiveClassifier(encoder, learning_rate=1e-2, updates=40, max_length=32).fit(TEXTS, LABELS)
    assert fitted._vectors is not None
    trained = fitted._vectors(TEXTS)

    def contrast(vectors: np.ndarray) -> float:
        similarity, same = vectors @ vectors.T, np.equal.outer(LABELS, LABELS)
        return float(similarity[same].mean() - similarity[~same].mean())

    assert contrast(trained) > contrast(plain) + 0.2
