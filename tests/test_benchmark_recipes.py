from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linda.augmentation import Augmenter, neighbours
from linda.benchmark import new_rows
from linda.benchmark.models import Models, load_method
from linda.benchmark.new_rows import NewRows, RowSources, make_new_rows
from linda.benchmark.recipes import Policy, parse_recipe
from linda.benchmark.tasks import LabelledRows
from linda.errors import LindaError
from splice import Splice, sentences
from tiny_encoder import save_tiny_bert

ROWS = LabelledRows(
    ["the film is good here now", "a good film in the city", "the bad man is in a bad city", "a bad film so far away"],
    None,
    ["pos", "pos", "neg", "neg"],
    None,
)
UNLABELLED = ["an old man of the sea", "the very bad sea was far", "no city is so good"]
CLASSES: list[Any] = ["neg", "pos"]


class SureTeacher:
    """Sees one word only."""

    classes_ = CLASSES

    def predict_proba(self, texts: list[str], pairs: list[str] | None = None) -> np.ndarray:
        return np.array([[0.9, 0.1] if "bad" in text else [0.1, 0.9] for text in texts])


@pytest.fixture(autouse=True)
def _splice_for_linda(monkeypatch: pytest.MonkeyPatch) -> None:
    load = load_method.__wrapped__
    monkeypatch.setattr(new_rows, "load_method", lambda name, *more: Splice() if name == "linda" else load(name, *more))


def made(text: str, rows: LabelledRows = ROWS, encoder: Path | None = None, seed: int = 1) -> NewRows:
    sources = RowSources(Models(), None if encoder is None else str(encoder), SureTeacher, UNLABELLED)  # type: ignore[arg-type]
    return make_new_rows(parse_recipe(text), rows, CLASSES, sources, seed)


def test_methods_by_name_and_setting() -> None:
    assert parse_recipe("vanilla").source is None
    assert parse_recipe("mixup").training.mixup == 1.0
    assert parse_recipe("ssmba-soft").policy.labels == "predicted"
    assert parse_recipe("linda-sharpened").policy.temperature == 0.5
    method = parse_recipe("linda+partners=same+weight=0.5+per_row=4+raw_ratio=true+ratio=beta:0.4")
    assert method.policy == Policy("same", "beta:0.4", raw_ratio=True, per_row=4, weight=0.5)
    assert method.name == "linda+partners=same+weight=0.5+per_row=4+raw_ratio=true+ratio=beta:0.4"


def test_linda_is_what_linda_augment_does() -> None:
    policy = parse_recipe("linda").policy
    for name in ("partners", "ratio", "raw_ratio", "labels", "temperature", "per_row", "weight"):
        assert getattr(policy, name) == getattr(Augmenter(), name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lindy", "no method 'lindy'; known are vanilla, class-weights, oversample"),
        ("linda+partner=same", "no setting 'partner'; known are partners, ratio"),
        ("linda+per_row=many", "per_row cannot be 'many'; give a whole number"),
        ("linda+partners=alike", "partners are any, same, different, stratified, nearest, unlabelled; got 'alike'"),
        ("linda+ratio=half", "'half' is no ratio"),
        ("linda+keep=2", "keep between 0 and 1; got 1, 1 and 2"),
        ("linda+gates=no", "gates cannot be 'no'; give true or false"),
        ("eda+partners=same", "eda mixes no two texts and has no partners"),
        ("vanilla+weight=0.5", "vanilla makes no new rows"),
    ],
)
def test_bad_methods(text: str, message: str) -> None:
    with pytest.raises(LindaError, match=message):
        parse_recipe(text)


def test_translation_needs_models() -> None:
    with pytest.raises(LindaError, match="--translate THERE BACK"):
        Models().check({"backtranslation"})


def test_a_folder_that_is_no_linda_model(tmp_path: Path) -> None:
    models = Models(linda=str(tmp_path), masked="bert")
    models.check({"eda", "ssmba"})  # which do without it
    with pytest.raises(LindaError, match="is not a LINDA model"):
        models.check({"linda"})


def test_vanilla_and_mixup_make_no_rows() -> None:
    assert len(made("vanilla")) == len(made("mixup")) == 0


def test_one_new_row_per_row_with_the_parents_label() -> None:
    new = made("eda")
    assert len(new) == 4
    np.testing.assert_array_equal(new.labels, [[0, 1], [0, 1], [1, 0], [1, 0]])
    assert not set(new.texts) & set(ROWS.texts)


def test_labels_lie_between_the_parents() -> None:
    interpolated, sharpened = made("linda-interpolated").labels, made("linda-sharpened").labels
    between = (interpolated > 0) & (interpolated < 1)
    assert between.any()
    assert (np.abs(sharpened - 0.5)[between] > np.abs(interpolated - 0.5)[between]).all()
    np.testing.assert_allclose(interpolated.sum(axis=1), 1, atol=1e-5)


def test_policy_reaches_the_rows() -> None:
    assert len(made("eda+per_row=2")) == 8
    assert made("linda+weight=0.25").weight == 0.25
    assert made("linda").weight == 1
    same = made("linda").labels
    assert set(same.flatten()) == {0.0, 1.0}


def test_predicted_labels_are_the_teachers() -> None:
    new = made("linda-predicted")
    np.testing.assert_allclose(new.labels, SureTeacher().predict_proba(new.texts), atol=1e-6)


def test_rows_that_the_teacher_doubts_are_left_out() -> None:
    everything, kept = made("linda-interpolated+per_row=4"), made("linda-interpolated+per_row=4+keep=0.8")
    assert 0 < len(kept) < len(everything)
    assert set(kept.texts) < set(everything.texts)
    for text, label in zip(kept.texts, kept.labels, strict=True):
        assert np.minimum(label, SureTeacher().predict_proba([text])[0]).sum() >= 0.8


def test_nearest_partners_are_the_most_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "NEIGHBOURS", 1)
    rows = LabelledRows(
        ["good good good", "bad bad bad", "good good good far", "bad bad bad far"], None, ROWS.labels, None
    )
    new = made("linda+partners=nearest+ratio=0.5+gates=false", rows, save_tiny_bert(tmp_path / "bert"))
    for text in new.texts:
        assert not {"good", "bad"} <= set(text.split())


def test_pairs_are_made_from_pairs() -> None:
    texts = sentences(4)  # every word ends in the number of its row
    new = made(
        "linda-interpolated+gates=false", LabelledRows(texts, [text.upper() for text in texts], ROWS.labels, None)
    )
    assert new.pairs is not None
    assert len(new.pairs) == len(new.texts) == len(new.labels) == 4
    for text, pair in zip(new.texts, new.pairs, strict=True):
        assert pair == text.upper()  # of the same parents, by the same ratio
        assert len({word[-1] for word in text.split()}) <= 2
