import json
from dataclasses import replace

import pytest

from linda.inspection import STANDARDS, inspect_model, verdict, write_report
from linda.inspection.conditions import measure_conditions
from linda.inspection.figures import draw_figures
from linda.inspection.path import GRID, Decoded, is_monotone, measure_middle, measure_path, straightness
from linda.inspection.report import Fluency
from linda.interpolation.calibration import calibrated
from linda.measures.fluency import Perplexity
from linda.model.tokens import Tokens

PAIRS = [
    ("the old cat sat on a small city.", "who saw what where is red and in of was"),
    ("a dog ran in the river of the woman.", "what is red and small on where was sat"),
]


class WordCutter:
    """Stands in for an interpolator: the first words of a, then the last of b, in proportion to the ratio mixed."""

    def __init__(self, model):
        self.config = model.config
        self.tokens = Tokens.of(model)
        self.calls = []

    def mix(self, a, b, alpha, *, raw, seed, progress):
        self.calls.append(raw)
        knots = [(0, 0), (1, 1)] if raw else self.config.calibration
        return [self._cut(*row, knots) for row in zip(a, b, alpha, strict=True)]

    @staticmethod
    def _cut(a, b, alpha, knots):
        mixed = calibrated(alpha, knots)
        words_a, words_b = a.split(), b.split()
        return " ".join(words_a[: round(mixed * len(words_a))] + words_b[round(mixed * len(words_b)) :])


@pytest.fixture(scope="module")
def inspection(tiny_model):
    return inspect_model(WordCutter(tiny_model), tiny_model, PAIRS, with_raw=True)


def test_pairs_are_decoded_once_for_all_measures(tiny_model):
    interpolator = WordCutter(tiny_model)
    inspect_model(interpolator, tiny_model, PAIRS)
    assert interpolator.calls == [False]


def test_path_by_hand(tiny_model):
    pairs = [("cat dog", "man woman"), ("red old", "city river")]
    texts = {alpha: ["cat woman.", "red old"] for alpha in GRID}
    point = measure_path(WordCutter(tiny_model), pairs, Decoded(texts, raw=True, seconds=1.0))[5]
    assert point.alpha == point.mixed == 0.5
    assert point.precision_a == pytest.approx((1 / 2 + 1) / 2)
    assert point.precision_b == pytest.approx((1 / 2 + 0) / 2)
    assert point.share_of_a == pytest.approx(0.75)
    assert point.pair_deviation == pytest.approx((0 + 0.5) / 2)
    assert point.new == 0.5  # "red old" copies a
    assert point.sentence_ends == 0.5
    assert point.repeating == point.repetition == 0.0
    # Tokens with the end marker: all texts have 3, and the full stop makes 4.
    assert point.length == pytest.approx((4 + 3) / (3 + 3))


def test_the_calibrated_path_mixes_what_the_model_says(tiny_model):
    config = tiny_model.config
    before, config.calibration = config.calibration, [(0.0, 0.0), (0.5, 0.8), (1.0, 1.0)]
    try:
        texts = {alpha: ["x", "y"] for alpha in GRID}
        points = measure_path(WordCutter(tiny_model), PAIRS, Decoded(texts, raw=False, seconds=1.0))
    finally:
        config.calibration = before
    assert points[5].mixed == pytest.approx(0.8)


def test_straight_and_monotone(inspection):
    points = inspection.calibrated
    assert is_monotone(points)
    assert straightness(points) < 0.1
    bent = [replace(point, share_of_a=0.0) for point in points]
    assert straightness(bent) == 1.0
    assert not is_monotone(points[::-1])


def test_words_of_the_middle_by_hand():
    pairs = [("cat dog", "man woman"), ("red old", "city river")]
    middle = measure_middle(pairs, ["cat man new new", "red old"])
    assert (middle.in_a, middle.in_b) == ((1 / 4 + 1) / 2, 1 / 8)
    assert (middle.either, middle.neither) == (3 / 4, 1 / 4)
    assert middle.from_both == 0.5


def test_conditions_are_the_models_own_probabilities(tiny_model):
    points = measure_conditions(tiny_model, PAIRS)
    assert [point.alpha for point in points] == list(GRID)
    log_p, tokens = [], 0
    for a, b in PAIRS:  # one by one, straight from the model
        states, mask = tiny_model.mix_texts([a], [b], 0.3)
        targets = [tiny_model.tokenize([text])["input_ids"] for text in (a, b)]
        log_p.append([tiny_model.log_likelihood(states, mask, target).item() for target in targets])
        tokens += targets[0].shape[1]
    assert points[3].log_p_a == pytest.approx(sum(row[0] for row in log_p) / tokens, rel=1e-4)
    assert points[3].a_likelier == sum(row[0] > row[1] for row in log_p) / 2
    assert points[3].holds == points[3].b_likelier
    assert points[7].holds == points[7].a_likelier
    assert 0 <= points[3].sum_of_both <= 2


def test_verdict_passes_and_fails(inspection):
    rows = {row.measure.split(":")[0]: row for row in verdict(inspection, STANDARDS["in-domain"])}
    assert rows["both curves monotone in α"].passed is True
    assert rows["outputs at α=0.5 equal to neither input"].passed is True
    assert rows["perplexity at α=0.5 against real sentences"].passed is None  # no language model was given
    ends = replace(inspection.calibrated[-1], precision_a=0.9899)
    worse = replace(inspection, calibrated=[*inspection.calibrated[:-1], ends])
    first = verdict(worse, STANDARDS["in-domain"])[0]
    assert (first.reached, first.passed) == ("0.989", False)
    assert verdict(worse, STANDARDS["out-of-domain"])[0].passed is True


def test_verdict_on_perplexity(inspection):
    fluency = Fluency(*(Perplexity(value, value) for value in (90.0, 50.0, 200.0, 900.0)))
    measured = replace(inspection, fluency=fluency)
    reached = [row.reached for row in verdict(measured, STANDARDS["in-domain"]) if "perplexity" in row.measure]
    assert reached == ["1.80 times", "0.45 times"]


def test_report_files(inspection, tmp_path):
    requirements = write_report(inspection, tmp_path, {"model": "stand-in"}, STANDARDS["in-domain"])
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["about"] == {"model": "stand-in"}
    assert [row["measure"] for row in report["verdict"]] == [row.measure for row in requirements]
    assert [point["alpha"] for point in report["calibrated"]["points"]] == list(GRID)
    assert report["raw"]["monotone"] is True
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert all(row.measure in markdown for row in requirements)
    outputs = [json.loads(line) for line in (tmp_path / "outputs.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(outputs) == len(PAIRS) * len(GRID)
    assert outputs[-1] == {"a": PAIRS[1][0], "b": PAIRS[1][1], "alpha": 1.0, "text": PAIRS[1][0]}


def test_figures_are_png(inspection, tmp_path):
    fluency = Fluency(*(Perplexity(value, value) for value in (90.0, 50.0, 200.0, 900.0)))
    draw_figures(replace(inspection, fluency=fluency), tmp_path)
    names = ["conditions.png", "perplexity.png", "precision.png", "share.png"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in names)
