import numpy as np
import pytest

from linda.evaluation.metrics import score_decisions
from linda.evaluation.statistics import paired_difference
from linda.evaluation.tuning import (
    fit_temperature,
    held_out_probabilities,
    scaled,
    stable_offsets,
    stratified_folds,
    tune_offsets,
    tuned_scores,
)


def skewed(random: np.random.Generator, rows: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """A rare class that a classifier underestimates: its rows have p between 0.2 and 0.5, others below 0.25."""
    codes = (random.random(rows) < 0.1).astype(int)
    p = np.where(codes == 1, random.uniform(0.2, 0.5, rows), random.uniform(0, 0.25, rows))
    return np.stack([1 - p, p], axis=1), codes


def test_a_threshold_is_found_for_a_rare_class() -> None:
    random = np.random.default_rng(0)
    train, train_codes = skewed(random)
    test, test_codes = skewed(random)
    plain = score_decisions(test.argmax(axis=1), test_codes, 2)
    tuned = tuned_scores(train, train_codes, test, test_codes)
    assert plain["macro_f1"] < 50 < 85 < tuned["macro_f1_tuned"]
    assert tuned["balanced_accuracy_tuned"] > 85


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1", "balanced_accuracy"])
def test_offsets_are_the_best_of_a_fine_grid(metric: str) -> None:
    random = np.random.default_rng(1)
    probabilities, codes = random.dirichlet([1, 1], 60), random.integers(2, size=60)

    def score(offset: float) -> float:
        return score_decisions((np.log(probabilities) + np.array([0, offset])).argmax(axis=1), codes, 2)[metric]

    found = tune_offsets(probabilities, codes, metric)
    assert found[0] == 0
    assert score(found[1]) == pytest.approx(max(map(score, np.linspace(-8, 8, 20_001))))


def test_offsets_of_several_classes_never_lose_on_their_own_rows() -> None:
    for seed in range(10):
        random = np.random.default_rng(seed)
        probabilities, codes = random.dirichlet([1] * 5, 80), random.integers(5, size=80)
        for metric in ("accuracy", "macro_f1"):
            offsets = tune_offsets(probabilities, codes, metric)
            before = score_decisions(probabilities.argmax(axis=1), codes, 5)[metric]
            after = score_decisions((np.log(probabilities) + offsets).argmax(axis=1), codes, 5)[metric]
            assert after > before


def test_a_threshold_is_tuned_for_the_shares_of_the_data() -> None:
    random = np.random.default_rng(0)

    def drawn(rare: int, common: int) -> tuple[np.ndarray, np.ndarray]:
        """The classes overlap, so that the best threshold depends on their shares."""
        codes = np.repeat([0, 1], [common, rare])
        p = 1 / (1 + np.exp(-(random.normal(2 * codes - 1, 1.5) - 2)))
        return np.stack([1 - p, p], axis=1), codes

    (train, train_codes), (test, test_codes) = drawn(20, 200), drawn(1000, 1000)
    of_training = tuned_scores(train, train_codes, test, test_codes)
    of_data = tuned_scores(train, train_codes, test, test_codes, np.array([0.5, 0.5]))
    for metric in ("accuracy_tuned", "macro_f1_tuned"):
        assert of_data[metric] > of_training[metric] + 3


def test_stable_offsets_differ_less_between_draws() -> None:
    def offsets(seed: int) -> list[np.ndarray]:
        random = np.random.default_rng(seed)
        codes = random.integers(4, size=60)
        probabilities = random.dirichlet([1] * 4, 60) * 0.7 + np.eye(4)[codes] * 0.3
        plain = tune_offsets(probabilities, codes, "macro_f1")
        return [plain - plain.mean(), stable_offsets(probabilities, codes, "macro_f1", np.ones(60))]

    plain, stable = np.swapaxes([offsets(seed) for seed in range(12)], 0, 1)  # (12, 4) each; 0 would be right
    assert np.abs(stable).mean() < 0.8 * np.abs(plain).mean()


def test_a_perfect_prediction_is_left_alone() -> None:
    np.testing.assert_array_equal(
        tune_offsets(np.eye(3)[[0, 1, 2, 0]] * 0.9 + 0.03, np.array([0, 1, 2, 0]), "accuracy"), 0
    )


def test_folds_are_stratified_and_cover_every_row_once() -> None:
    codes = np.array([0] * 20 + [1] * 7 + [2])
    folds = list(stratified_folds(codes, 5, seed=3))
    assert sorted(np.concatenate([held_out for _, held_out in folds]).tolist()) == list(range(28))
    for training, held_out in folds:
        assert not set(training) & set(held_out)
        assert (codes[held_out] == 0).sum() == 4
        assert (codes[held_out] == 1).sum() in (1, 2)
    assert len(list(stratified_folds(np.array([0, 1]), 5, seed=0))) == 2


def test_a_row_is_predicted_without_itself() -> None:
    codes = np.array([0, 1] * 6)

    def predict(training: np.ndarray, held_out: np.ndarray) -> np.ndarray:
        assert not set(training) & set(held_out)
        return np.eye(2)[codes[held_out]]

    np.testing.assert_array_equal(held_out_probabilities(codes, 2, 3, 0, predict), np.eye(2)[codes])


def test_the_temperature_undoes_overconfidence() -> None:
    random = np.random.default_rng(0)
    honest = random.dirichlet([1, 1, 1], 4000)
    codes = np.array([random.choice(3, p=row) for row in honest])
    assert fit_temperature(honest, codes) == pytest.approx(1, abs=0.1)
    assert fit_temperature(scaled(honest, 1 / 3), codes) == pytest.approx(3, abs=0.3)
    np.testing.assert_allclose(scaled(scaled(honest, 1 / 3), 3), honest, atol=1e-6)
    assert (scaled(honest, 5).argmax(axis=1) == honest.argmax(axis=1)).all()


def test_the_detectable_difference_is_detected_four_times_in_five() -> None:
    random = np.random.default_rng(0)
    for count in (5, 25):
        draws = random.normal(0, 1, (4000, count))
        single = paired_difference(dict(enumerate(draws[0])), dict.fromkeys(range(count), 0.0))
        assert single is not None
        assert single.detectable is not None
        detectable = single.detectable / draws[0].std(ddof=1)  # in standard deviations
        found = [
            paired_difference(dict(enumerate(row + detectable)), dict.fromkeys(range(count), 0.0)) for row in draws
        ]
        assert np.mean([difference is not None and difference.is_clear for difference in found]) == pytest.approx(
            0.8, abs=0.03
        )
