from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linda.augmentation.settings import AugmentationSettings
from linda.benchmark import new_rows
from linda.benchmark.models import Models, load_method
from linda.benchmark.new_rows import NewRows, RowSources, make_new_rows
from linda.benchmark.recipes import Policy, Training, parse_recipe
from linda.benchmark.tasks import LabelledRows
from linda.classifier.students import find_student
from linda.errors import LindaError
from linda.planning import neighbours
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


def made(
    text: str, rows: LabelledRows = ROWS, encoder: Path | None = None, seed: int = 1, as_published: bool = False
) -> NewRows:
    sources = RowSources(Models(), None if encoder is None else str(encoder), SureTeacher, UNLABELLED)  # type: ignore[arg-type]
    return make_new_rows(parse_recipe(text, as_published), rows, CLASSES, sources, seed)


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
        assert getattr(policy, name) == getattr(AugmentationSettings(), name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lindy", "unknown method 'lindy'; choose from vanilla, class-weights, oversample"),
        ("linda+partner=same", "unknown setting 'partner'; choose from partners, ratio"),
        ("linda+per_row=many", "per_row cannot be 'many'; give a whole number"),
        (
            "linda+partners=alike",
            "unknown partners 'alike'; choose from any, same, different, stratified, nearest, unlabelled",
        ),
        ("linda+ratio=half", "'half' is not a ratio"),
        ("linda+keep=2", "keep between 0 and 1 and pseudo_rows 0 or more; got 1, 1, 2 and 0"),
        ("linda+gates=no", "gates cannot be 'no'; give true or false"),
        ("eda+partners=same", "partners has no effect, because eda does not mix texts"),
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
    models.check({"eda", "ssmba"})  # which do not need it
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
    assert set(made("linda+weight=0.25").weights) == {0.25}
    assert set(made("linda").weights) == {1}
    same = made("linda").labels
    assert set(same.flatten()) == {0.0, 1.0}


@pytest.mark.parametrize("method", ["linda-raw", "linda-raw-sharpened", "linda-raw-predicted"])
def test_linda_as_in_the_paper_keeps_every_row_with_copies_and_duplicates(method: str) -> None:
    doubled = ROWS.take([0, 1, 2, 3, 0, 1, 2, 3])
    assert made(f"{method}+ratio=0.99", doubled).texts == doubled.texts  # each a copy of its first parent
    calibrated = made(f"{method}+ratio=0.99+gates=true", doubled)
    assert not set(calibrated.texts) & set(doubled.texts)


@pytest.mark.parametrize("method", ["eda", "eda+labels=predicted"])
def test_published_baselines_keep_every_row(method: str) -> None:
    """EDA cannot change a single word without synonyms: its new row is a copy."""
    rows = LabelledRows(["xyzzy", "a good film in the city", "qwrtp", "a bad film"], None, ROWS.labels, None)
    published = made(method, rows, as_published=True)
    assert (len(published), published.texts[0], published.texts[2]) == (4, "xyzzy", "qwrtp")
    assert not {"xyzzy", "qwrtp"} & set(made(method, rows).texts)
    assert not {"xyzzy", "qwrtp"} & set(made(f"{method}+gates=true", rows, as_published=True).texts)


def test_which_methods_keep_every_row() -> None:
    def gated(name: str, as_published: bool) -> bool:
        return parse_recipe(name, as_published).policy.gates

    for raw in ("linda-raw", "linda-raw-sharpened", "linda-raw-predicted"):
        assert not gated(raw, as_published=False)
        assert not gated(raw, as_published=True)
    for baseline in ("eda", "ssmba", "ssmba-soft"):
        assert gated(baseline, as_published=False)
        assert not gated(baseline, as_published=True)
    for ours in ("linda", "linda-interpolated", "linda-measured", "backtranslation"):
        assert gated(ours, as_published=True)


def test_models_are_described_beside_the_papers(tiny_model_folder: Path) -> None:
    embedded = Models().described({"linda", "ssmba", "eda"})
    assert [line.split(":")[0] for line in embedded] == ["LINDA", "SSMBA"]
    for line in embedded:
        assert "the embedded model (" in line
        assert "not the paper's, which is BART-large" in line
    assert "--masked-model" in embedded[1]
    given = Models(str(tiny_model_folder), masked="my/bert").described({"linda", "ssmba"})
    assert given[0].startswith(f"LINDA: the model in {tiny_model_folder} (")
    assert "not the paper's" in given[0]
    assert given[1] == "SSMBA: the masked language model my/bert"
    assert Models("me/bart-linda").described({"linda"}) == ["LINDA: the model me/bart-linda from the hub"]
    assert Models().described({"eda"}) == []


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


RARE = LabelledRows(
    [f"{text} number {n}" for n in range(3) for text in ROWS.texts[2:]] + ["the film is good here now", "a good city"],
    None,
    ["neg"] * 6 + ["pos"] * 2,
    None,
)


def test_oversampling_repeats_rows_of_rare_classes_evenly() -> None:
    new = made("oversample", RARE)
    assert sorted(new.texts) == sorted(RARE.texts[6:] * 2)
    np.testing.assert_array_equal(new.labels, [[0, 1]] * 4)
    assert sorted(new.parents) == [(6,), (6,), (7,), (7,)]
    assert len(made("oversample")) == 0  # classes are equal already


@pytest.mark.parametrize("method", ["eda", "linda"])
def test_balance_fills_rare_classes_only(method: str) -> None:
    new = made(f"{method}+balance+gates=false", RARE)
    np.testing.assert_array_equal(new.labels, [[0, 1]] * 4)
    firsts = [parents[0] for parents in new.parents]
    assert sorted(firsts) == [6, 6, 7, 7]
    assert len(made(f"{method}+balance")) == 0


def test_balance_leaves_a_class_without_partners_alone() -> None:
    alone = RARE.take(range(7))
    assert len(made("linda+balance", alone)) == 0
    assert len(made("linda+balance+partners=any+gates=false", alone)) == 5


def test_new_rows_know_their_parents() -> None:
    new = made("linda-interpolated+gates=false")
    for text, parents in zip(new.texts, new.parents, strict=True):
        words = {word for parent in parents for word in ROWS.texts[parent].split()}
        assert set(text.split()) <= words
    part = new.made_of([0, 1, 2])
    assert 0 < len(part) < len(new)
    assert all(3 not in parents for parents in part.parents)
    assert made("eda").parents == [(0,), (1,), (2,), (3,)]


def test_unlabelled_rows_with_the_teachers_labels() -> None:
    new = made("pseudo-label")
    assert sorted(new.texts) == sorted(UNLABELLED)
    np.testing.assert_allclose(new.labels, SureTeacher().predict_proba(new.texts))
    one = LabelledRows(["a good film"], None, ["pos"], None)
    assert len(made("pseudo-label", one)) == 1
    assert len(made("pseudo-label+per_row=2", one)) == 2


def test_unlabelled_partners_are_the_rows_that_are_pseudo_labelled() -> None:
    unlabelled = [f"word{number}" for number in range(40)]  # one word each, so that half of a mixture holds it
    sources = RowSources(Models(), None, SureTeacher, unlabelled)  # type: ignore[arg-type]
    plain, mixed = (
        make_new_rows(parse_recipe(name), ROWS, CLASSES, sources, 3)
        for name in ("pseudo-label+per_row=3", "linda+partners=unlabelled+ratio=0.5+per_row=3+gates=false")
    )
    assert len(set(plain.texts)) == 12
    assert sorted(text.split()[-1] for text in mixed.texts) == sorted(plain.texts)


def test_unlabelled_rows_as_partners() -> None:
    new = made("linda+partners=unlabelled+ratio=0.5+gates=false")
    assert len(new) == 4
    strangers = {word for text in UNLABELLED for word in text.split()}
    for text, label, parents in zip(new.texts, new.labels, new.parents, strict=True):
        assert len(parents) == 1
        own = ROWS.texts[parents[0]].split()
        assert set(text.split()) <= set(own) | strangers
        assert not set(text.split()) <= set(own)
        hard = np.array([0.0, 1.0] if ROWS.labels[parents[0]] == "pos" else [1.0, 0.0])
        options = [0.5 * hard + 0.5 * p for p in SureTeacher().predict_proba(UNLABELLED)]
        assert any(np.allclose(label, option, atol=1e-5) for option in options)
    with pytest.raises(LindaError, match="a task on pairs of texts does not have"):
        made("pseudo-label", LabelledRows(ROWS.texts, ROWS.texts, ROWS.labels, None))


@pytest.mark.parametrize("method", ["eda", "linda+partners=any", "eda&splice+partners=any"])
def test_pseudo_labelled_rows_are_augmented_like_originals(method: str) -> None:
    new = made(f"{method}+pseudo_rows=1+per_row=2+labels=predicted+weight=0.5+gates=false")
    plain = made("pseudo-label")
    assert len(plain) == len(UNLABELLED) == 3  # fewer than rows, so all are used
    assert new.texts[:3] == plain.texts  # once, also for joined methods
    np.testing.assert_allclose(new.labels, SureTeacher().predict_proba(new.texts), atol=1e-6)
    assert new.weights.tolist() == [1.0] * 3 + [0.5] * 14  # two new rows for each of 4 + 3 rows
    assert new.parents[:3] == [()] * 3
    assert all(parent < len(ROWS) for parents in new.parents for parent in parents)
    words = {word for text in UNLABELLED for word in text.split()}
    assert any(set(text.split()) & words for text in new.texts[3:])


def test_pseudo_rows_need_unlabelled_texts_and_a_teacher() -> None:
    recipe = parse_recipe("eda+pseudo_rows=2")
    assert recipe.uses_unlabelled
    assert recipe.uses_teacher
    assert not parse_recipe("eda+pseudo_rows=0").uses_unlabelled


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("linda+pseudo_rows=2+partners=unlabelled", "pseudo_rows and partners=unlabelled exclude each other"),
        ("linda+pseudo_rows=-1", "pseudo_rows 0 or more; got 1, 1, 0 and -1"),
        ("pseudo-label+pseudo_rows=2", "pseudo_rows has no effect"),
        ("vanilla+balance", "balance has no effect, because vanilla makes no new rows"),
        ("oversample+per_row=2", "per_row has no effect, because oversample makes no new texts"),
        ("splice+raw_ratio", "raw_ratio has no effect, because splice has no calibrated ratio"),
        ("crossover+balance+raw_ratio=false", "raw_ratio has no effect, because crossover has no calibrated ratio"),
        ("linda+balance+per_row=4", "per_row has no effect, because balance decides"),
        ("linda+temperature=0.2", "temperature has no effect, because only labels=sharpened use it"),
        ("label-smoothing+smoothing=1", "smoothing from 0 to below 1; got 0 and 1"),
        (
            "eda+smooth=0.1",
            "unknown setting 'smooth'; choose from .*balance, pseudo_rows, mixup, smoothing, class_weights",
        ),
    ],
)
def test_bad_settings(text: str, message: str) -> None:
    with pytest.raises(LindaError, match=message):
        parse_recipe(text)


def test_training_settings_go_with_any_method() -> None:
    recipe = parse_recipe("eda+class_weights+smoothing=0.2+scaled")
    assert recipe.training == Training(class_weights=True, smoothing=0.2, scaled=True)
    record = recipe.record()
    assert record is not None
    assert (record["smoothing"], record["per_row"]) == (0.2, 1)
    assert parse_recipe("label-smoothing").record() == {"smoothing": 0.1}
    assert parse_recipe("vanilla").record() is None


@pytest.mark.parametrize(
    ("method", "student", "message"),
    [
        ("mixup", "probe", "the student probe has none .use --student finetune"),
        ("smote", "finetune", "needs the student's vectors before training; finetune has none"),
        ("early-stopping", "probe", "stops fine-tuning early; the student probe is trained otherwise"),
        ("early-stopping", "finetune", "held-out folds of the training rows; give --folds 3"),
        ("temperature", "probe", "held-out folds of the training rows; give --folds 3"),
    ],
)
def test_students_that_cannot_be_trained_so(method: str, student: str, message: str) -> None:
    with pytest.raises(LindaError, match=message):
        parse_recipe(method).check_student(find_student(student), folds=0)


def test_joined_methods_make_half_of_the_rows_each() -> None:
    new = made("eda&linda+partners=any+labels=predicted+per_row=4+ratio=0.5+gates=false")
    of_linda = made("linda+partners=any+labels=predicted+per_row=2+ratio=0.5+gates=false")
    of_eda = made("eda+labels=predicted+per_row=2+gates=false")
    assert new.texts == of_eda.texts + of_linda.texts
    assert new.labels.tolist() == of_eda.labels.tolist() + of_linda.labels.tolist()
    assert new.parents == of_eda.parents + of_linda.parents
    assert (len(of_eda), len(of_linda)) == (8, 8)


def test_joined_methods_have_the_settings_of_each() -> None:
    recipe = parse_recipe("eda&linda-measured+partners=unlabelled+labels=predicted+per_row=8+class_weights")
    assert (recipe.augments, recipe.mixes, recipe.uses_unlabelled, recipe.uses_teacher) == (True, True, True, True)
    assert recipe.sources == ["eda", "linda"]
    record = recipe.record()
    assert record is not None
    assert (record["eda per_row"], record["linda-measured per_row"], record["class_weights"]) == (4, 4, True)
    assert record["linda-measured partners"] == "unlabelled"
    assert "eda partners" not in record
    assert parse_recipe("eda&linda+per_row=2").needs_same_label


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("eda&linda", "2 methods cannot each make an equal part of per_row=1; give per_row=2 or a multiple"),
        ("eda&vanilla+per_row=2", "vanilla makes no new texts; join methods that do"),
        ("eda&magic", "unknown method 'magic'"),
        ("eda&eda+per_row=2", "a method is named twice"),
        ("eda&linda+balance", "balance determines the number of rows of one method"),
        ("eda&ssmba+partners=any+per_row=2", "partners has no effect, because eda does not mix texts"),
    ],
)
def test_what_cannot_be_joined(text: str, message: str) -> None:
    with pytest.raises(LindaError, match=message):
        parse_recipe(text)
