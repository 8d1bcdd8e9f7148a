import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from linda.classifier import TextClassifier
from linda.classifier.encoder import SentenceEncoder, known_learning_rate
from linda.classifier.text_classifier import _mixed
from linda.errors import LindaError
from tiny_encoder import save_tiny_bert

TEXTS = [
    "the film is good",
    "a good film",
    "good good",
    "the film is bad",
    "a bad city",
    "bad bad the man is bad",
]
LABELS = ["pos", "pos", "pos", "neg", "neg", "neg"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_bert(tmp_path_factory.mktemp("tiny") / "bert")


def classifier(encoder: Path, **settings: object) -> TextClassifier:
    return TextClassifier(encoder, **{"learning_rate": 1e-2, "batch_size": 4, "epochs": 25, **settings})  # type: ignore[arg-type]


def test_learns_hard_labels(encoder: Path) -> None:
    fitted = classifier(encoder).fit(TEXTS, LABELS)
    assert fitted.classes_ == ["neg", "pos"]
    assert fitted.predict(["good film", "bad film"]) == ["pos", "neg"]
    probabilities = fitted.predict_proba(TEXTS)
    assert probabilities.shape == (6, 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)


def test_columns_are_read_by_position_whatever_their_index(encoder: Path) -> None:
    frame = pd.DataFrame({"text": TEXTS, "pair": TEXTS[::-1], "label": [1, 1, 1, 0, 0, 0], "weight": 1.0})
    frame = frame.sample(frac=1, random_state=3)
    columns = [frame[name] for name in ("text", "label", "pair", "weight")]
    settings = {"seed": 1, "classes": np.array([0, 1])}
    fitted = classifier(encoder, epochs=2).fit(*columns, **settings)
    listed = classifier(encoder, epochs=2).fit(*(column.tolist() for column in columns), **settings)
    np.testing.assert_array_equal(
        fitted.predict_proba(frame["text"], frame["pair"]),
        listed.predict_proba(columns[0].tolist(), columns[2].tolist()),
    )
    assert json.dumps(fitted.classes_) == "[0, 1]"


def test_learns_the_distribution_it_is_given(encoder: Path) -> None:
    # Cross-entropy is minimal if the prediction equals the target: 0.7, not the argmax.
    targets = np.tile([0.7, 0.2, 0.1], (6, 1))
    fitted = classifier(encoder, dropout=0.0).fit(["a good film"] * 6, targets, classes=["x", "y", "z"])
    np.testing.assert_allclose(fitted.predict_proba(["a good film"])[0], [0.7, 0.2, 0.1], atol=0.03)


def test_weights_decide_between_contradictory_rows(encoder: Path) -> None:
    texts, labels = ["a good film"] * 4, ["pos", "pos", "neg", "neg"]
    fitted = classifier(encoder, dropout=0.0).fit(texts, labels, weights=[3.0, 3.0, 1.0, 1.0])
    assert fitted.predict_proba(["a good film"])[0, 1] == pytest.approx(0.75, abs=0.03)


def test_same_seed_same_model_and_global_random_state_untouched(encoder: Path) -> None:
    before = torch.random.get_rng_state()
    first = classifier(encoder, epochs=3).fit(TEXTS, LABELS, seed=5).predict_proba(TEXTS)
    assert torch.equal(before, torch.random.get_rng_state())
    torch.rand(3)
    again = classifier(encoder, epochs=3).fit(TEXTS, LABELS, seed=5).predict_proba(TEXTS)
    other = classifier(encoder, epochs=3).fit(TEXTS, LABELS, seed=6).predict_proba(TEXTS)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_updates_count_minibatches_not_rows(encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    monkeypatch.setattr(torch.optim.Adam, "step", lambda self: steps.append(1))
    classifier(encoder, epochs=3).fit(TEXTS, LABELS)
    assert len(steps) == 3 * 2  # six rows are two minibatches of four
    steps.clear()
    classifier(encoder, updates=7).fit(TEXTS, LABELS)
    assert len(steps) == 7


def test_pairs_are_told_from_single_texts(encoder: Path) -> None:
    # The two texts of a pair have the same words in either class: only their order differs.
    firsts, seconds, labels = ["good", "bad"] * 4, ["bad", "good"] * 4, ["neg", "pos"] * 4
    fitted = classifier(encoder).fit(firsts, labels, pairs=seconds)
    assert fitted.predict(["good", "bad"], ["bad", "good"]) == ["neg", "pos"]


def test_mixup_trains_on_mixed_vectors(encoder: Path) -> None:
    plain, mixed = (classifier(encoder, epochs=40, mixup=beta).fit(TEXTS, LABELS) for beta in (None, 1.0))
    assert mixed.predict(["good film", "bad film"]) == ["pos", "neg"]
    # Labels between the classes make it less certain of either.
    assert mixed.predict_proba(TEXTS).max(axis=1).mean() < plain.predict_proba(TEXTS).max(axis=1).mean() - 0.01


def test_vectors_and_labels_are_mixed_by_the_same_share() -> None:
    targets = torch.eye(4)
    vectors, labels = _mixed(10 * targets, targets, 1.0, np.random.default_rng(0))
    torch.testing.assert_close(vectors, 10 * labels)
    torch.testing.assert_close(labels.sum(dim=1), torch.ones(4))
    assert 0 < labels.diagonal().min() < 1


def test_vectors_do_not_depend_on_the_other_rows(encoder: Path) -> None:
    model = SentenceEncoder.from_pretrained(encoder).eval()
    rows = model.tokenize(["good", "the film is good and the city is far", "a bad man", "what is the number"])
    with torch.no_grad():
        together = model(rows)
        alone = torch.cat([model([row]) for row in rows])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)


def test_leaving_out_unused_tokens_changes_nothing(encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def weights_after_training() -> dict[str, torch.Tensor]:
        network = classifier(encoder, epochs=3).fit(TEXTS, LABELS, pairs=list(reversed(TEXTS)))._network
        assert network is not None
        return network.state_dict()

    narrowed = weights_after_training()
    monkeypatch.setattr(SentenceEncoder, "narrowed", lambda self, texts: nullcontext())
    whole = weights_after_training()
    assert narrowed.keys() == whole.keys()
    for name in whole:
        torch.testing.assert_close(narrowed[name], whole[name], atol=1e-6, rtol=1e-5)


def test_save_and_load(encoder: Path, tmp_path: Path) -> None:
    fitted = classifier(encoder, epochs=2).fit(TEXTS, [1, 1, 1, 0, 0, 0])
    fitted.save(tmp_path / "saved")
    fitted.save(tmp_path / "saved")  # again: it is replaced
    loaded = TextClassifier.load(tmp_path / "saved")
    assert loaded.classes_ == [0, 1]
    np.testing.assert_allclose(loaded.predict_proba(TEXTS), fitted.predict_proba(TEXTS), atol=1e-6)
    assert not list((tmp_path / "saved").glob("*.bin"))


def test_nothing_but_a_classifier_is_replaced(encoder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "thesis.txt").write_text("years of work")
    fitted = classifier(encoder, epochs=1).fit(TEXTS, LABELS)
    fitted.save(tmp_path / "empty")
    for precious in (tmp_path, tmp_path / "thesis.txt"):
        message = "already exists and does not contain a TextClassifier; give another folder"
        with pytest.raises(LindaError, match=message):
            fitted.save(precious)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_numpy_labels_become_plain_ones(encoder: Path) -> None:
    fitted = classifier(encoder, updates=1).fit(TEXTS, np.array([1, 1, 1, 0, 0, 0]))
    assert [type(name) for name in fitted.classes_] == [int, int]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"texts": [], "labels": []}, "the list of texts is empty"),
        ({"texts": "one string", "labels": ["a"]}, "list of texts"),
        ({"texts": ["a", "b"], "labels": ["x"]}, "2 texts but 1 labels"),
        ({"texts": ["a"], "labels": ["x"], "classes": ["y"]}, "'x' is not one of the classes"),
        ({"texts": ["a"], "labels": [[0.9, 0.3]], "classes": ["x", "y"]}, "is not a distribution"),
        ({"texts": ["a"], "labels": [[0.5, 0.5]]}, "need the same number of names"),
    ],
)
def test_bad_rows_are_named(encoder: Path, arguments: dict, message: str) -> None:
    with pytest.raises(LindaError, match=message):
        classifier(encoder).fit(**arguments)


def test_missing_encoder_and_untrained_classifier(tmp_path: Path, encoder: Path) -> None:
    with pytest.raises(LindaError, match="cannot be loaded"):
        TextClassifier(tmp_path / "nothing").fit(TEXTS, LABELS)
    with pytest.raises(LindaError, match="call fit first"):
        classifier(encoder).predict(["a"])
    with pytest.raises(LindaError, match="not a saved TextClassifier"):
        TextClassifier.load(encoder)


def test_known_rates_go_by_name() -> None:
    assert known_learning_rate("some/folder/all-MiniLM-L6-v2") == known_learning_rate(None)
    assert known_learning_rate("google-bert/bert-base-uncased") == 3e-5
    assert known_learning_rate("my-own-encoder") is None


def test_a_folder_of_the_default_encoders_name_is_the_folder(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    classifier(encoder, epochs=1).fit(TEXTS, LABELS).save("all-MiniLM-L6-v2")
    loaded = TextClassifier.load("all-MiniLM-L6-v2")
    assert loaded.encoder == "all-MiniLM-L6-v2"
    assert loaded._fitted().encoder.width == SentenceEncoder.from_pretrained(encoder).width


def test_watched_rows_are_of_their_type(encoder: Path) -> None:
    with pytest.raises(LindaError, match="watched is True; it must be a WatchedRows"):
        TextClassifier(encoder).fit(["a", "b"], [0, 1], watched=True)  # type: ignore[arg-type]
