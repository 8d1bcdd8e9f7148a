import json
from dataclasses import replace

import pytest

from linda.inspection import STANDARDS, inspect_model, verdict, write_inspection
from linda.inspection.conditions import measure_conditions
from linda.inspection.figures import draw_inspection
from linda.inspection.fluency import Fluency, FluencyPoint
from linda.inspection.path import GRID, Decoded, measure_path
from linda.inspection.references import CROSSOVER, RERANKED, SHUFFLED, SPLICE, WORD_MIX, reference_texts
from linda.interpolation.calibration import calibrated
from linda.measures.fluency import Perplexity
from linda.middles.ngrams import TrigramModel
from linda.model import LindaModel
from linda.model.tokens import Tokens

PAIRS = [
    ("the old cat sat on a small city.", "who saw what where is red and in of was"),
    ("a dog ran in the river of the woman.", "what is red and small on where was sat"),
]


class WordCutter:
    """A fake interpolator: the first words of a, then the last of b, in proportion to the ratio."""

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
    point = measure_path(WordCutter(tiny_model), pairs, Decoded(texts, raw=True, seconds=1.0)).at(0.5)
    assert point.alpha == point.mixed == 0.5
    assert point.precision_a == pytest.approx((1 / 2 + 1) / 2)
    assert point.precision_b == pytest.approx((1 / 2 + 0) / 2)
    assert point.share_of_a == pytest.approx(0.75)
    assert point.aim == pytest.approx((0 + 0.5) / 2)
    assert point.words_found == 1.0
    assert point.content_of_both == 0.5  # the copy has only words of a
    assert point.faithfulness == 0.5
    assert point.new == 0.5  # "red old" copies a
    assert point.sentence_ends == 0.5
    assert point.repeating == point.repetition == 0.0
    # Tokens with the end marker: all texts have 3, and the full stop makes 4.
    assert point.length == pytest.approx((4 + 3) / (3 + 3))
    assert point.length_fits == 0.5  # 4/3 is more than 1.33


def test_length_is_compared_with_the_requested_ratio(tiny_model):
    pairs = [("cat dog man woman city river cat", "red")]  # 8 and 2 tokens with the end marker
    texts = {alpha: ["cat dog man woman red"] for alpha in GRID}  # 6
    path = measure_path(WordCutter(tiny_model), pairs, Decoded(texts, raw=True, seconds=1.0))
    assert [path.at(alpha).length for alpha in (0.3, 0.5, 0.7)] == [6 / 4, 6 / 5, 6 / 7]
    assert [path.at(alpha).length_fits for alpha in (0.3, 0.5, 0.7)] == [0, 1, 1]
    assert path.length_fits == pytest.approx(2 / 3)


def test_aim_is_a_mean_over_texts_and_ratios(tiny_model):
    pairs = [("cat dog", "man woman"), ("red old", "city river")]
    texts = {alpha: ["cat woman", "red old"] for alpha in GRID}  # shares 0.5 and 1
    path = measure_path(WordCutter(tiny_model), pairs, Decoded(texts, raw=True, seconds=1.0))
    assert path.aim == pytest.approx((0.2 + 0.7 + 0.0 + 0.5 + 0.2 + 0.3) / 6)


def test_largest_step_is_a_mean_over_pairs(tiny_model):
    pairs = [("cat dog", "man woman"), ("red old", "city river")]
    halves = {alpha: "man woman" if alpha < 0.4 else "cat woman" if alpha < 0.8 else "cat dog" for alpha in GRID}
    jump = {alpha: "red old" if alpha > 0.5 else "city river" for alpha in GRID}
    decoded = Decoded({alpha: [halves[alpha], jump[alpha]] for alpha in GRID}, raw=True, seconds=1.0)
    assert measure_path(WordCutter(tiny_model), pairs, decoded).largest_step == pytest.approx((0.5 + 1.0) / 2)


def test_the_calibrated_path_mixes_what_the_model_says(tiny_model):
    config = tiny_model.config
    before, config.calibration = config.calibration, [(0.0, 0.0), (0.5, 0.8), (1.0, 1.0)]
    try:
        texts = {alpha: ["x", "y"] for alpha in GRID}
        path = measure_path(WordCutter(tiny_model), PAIRS, Decoded(texts, raw=False, seconds=1.0))
    finally:
        config.calibration = before
    assert path.at(0.5).mixed == pytest.approx(0.8)


def test_straight_and_monotone(inspection):
    path = inspection.calibrated
    assert path.is_monotone
    assert path.straightness < 0.1
    assert replace(path, points=[replace(point, share_of_a=0.0) for point in path.points]).straightness == 1.0
    assert not replace(path, points=path.points[::-1]).is_monotone


def test_words_of_the_middle_by_hand(tiny_model):
    pairs = [("cat dog", "man woman"), ("red old", "city river")]
    texts = {alpha: ["cat man new new", "red old"] for alpha in GRID}
    point = measure_path(WordCutter(tiny_model), pairs, Decoded(texts, raw=True, seconds=1.0)).at(0.5)
    assert (point.precision_a, point.precision_b) == ((1 / 4 + 1) / 2, 1 / 8)
    assert point.words_found == 3 / 4
    assert point.content_of_both == 0.5
    assert point.faithfulness == (1 / 2 + 0) / 2


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


def test_conditions_by_attention_at_the_ends_read_one_text(tiny_base_folder):
    """Untrained, the control state is zero and weighs 1 of the attention; at α = 1 nothing of b is read."""
    model = LindaModel.from_seq2seq(tiny_base_folder, max_length=24, mixing="attention").eval()
    [(a, b), _] = PAIRS
    points = measure_conditions(model, [(a, b)], "attention")
    other = measure_conditions(model, [(a, PAIRS[1][1])], "attention")
    assert points[10].log_p_a == pytest.approx(other[10].log_p_a, rel=1e-4)
    assert points[5].log_p_a != pytest.approx(other[5].log_p_a, rel=1e-4)
    swapped = measure_conditions(model, [(b, a)], "attention")
    assert points[3].log_p_a == pytest.approx(swapped[7].log_p_b, rel=1e-4)


def test_verdict_passes_and_fails(inspection):
    rows = {row.measure.split(":")[0]: row for row in verdict(inspection, STANDARDS["in-domain"])}
    assert rows["both curves monotone in α"].passed is True
    assert rows["outputs equal to neither text at α=0.5"].passed is True
    assert rows["perplexity at α=0.5 relative to real sentences"].passed is None  # no language model was given
    points = inspection.calibrated.points
    worse = replace(inspection.calibrated, points=[*points[:-1], replace(points[-1], precision_a=0.9899)])
    first = verdict(replace(inspection, calibrated=worse), STANDARDS["in-domain"])[0]
    assert (first.reached, first.passed) == ("0.989", False)
    assert verdict(replace(inspection, calibrated=worse), STANDARDS["out-of-domain"])[0].passed is True


def fluency_of(**per_token):
    points = {
        name: [FluencyPoint(0.5, Perplexity(value, value), 0.9)] for name, value in per_token.items() if name != "real"
    }
    return Fluency(Perplexity(per_token["real"], per_token["real"]), points)


FLUENCY = fluency_of(real=50.0, outputs=90.0, splice=200.0, crossover=120.0, word_mix=400.0, shuffled=900.0)


def test_verdict_on_perplexity(inspection):
    measured = replace(inspection, fluency=FLUENCY)
    reached = [row.reached for row in verdict(measured, STANDARDS["in-domain"]) if "perplexity" in row.measure]
    assert reached == ["1.800", "0.450", "0.750"]


def test_references_are_made_of_both_texts():
    pairs = [("the old cat sat on a small chair today", "a dog ran in the deep river with the woman")]
    known = "a dog sat on a small chair with the woman"  # b, then a, then b
    trigrams = TrigramModel.build([known] * 3)
    found = reference_texts(pairs, trigrams=trigrams)
    assert set(found) == {SPLICE, CROSSOVER, WORD_MIX, SHUFFLED}
    assert found[SPLICE][0.0] == found[CROSSOVER][0.0] == [pairs[0][1]]
    assert found[SPLICE][1.0] == found[CROSSOVER][1.0] == [pairs[0][0]]
    assert found[CROSSOVER][0.5] == [known]
    assert sorted(found[SHUFFLED][0.5][0].split()) == sorted(found[SPLICE][0.5][0].split())
    assert RERANKED not in found
    assert reference_texts(pairs) == {name: found[name] for name in (SPLICE, WORD_MIX, SHUFFLED)}


def test_texts_too_short_to_cross_are_spliced():
    pairs = [("cat", "dog")]
    found = reference_texts(pairs, trigrams=TrigramModel.build(["cat dog"]))
    assert found[CROSSOVER] == found[SPLICE]


def test_report_files(inspection, tmp_path):
    requirements = write_inspection(inspection, tmp_path, {"model": "stand-in"}, STANDARDS["in-domain"])
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["about"] == {"model": "stand-in"}
    assert [row["measure"] for row in report["verdict"]] == [row.measure for row in requirements]
    assert [point["alpha"] for point in report["calibrated"]["points"]] == list(GRID)
    assert report["calibrated"]["largest_step"] == inspection.calibrated.largest_step
    assert report["raw"]["monotone"] is True
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert all(row.measure in markdown for row in requirements)
    outputs = [json.loads(line) for line in (tmp_path / "outputs.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(outputs) == len(PAIRS) * len(GRID)
    assert outputs[-1] == {"a": PAIRS[1][0], "b": PAIRS[1][1], "alpha": 1.0, "text": PAIRS[1][0]}


def test_report_of_perplexity(inspection, tmp_path):
    write_inspection(replace(inspection, fluency=FLUENCY), tmp_path, {}, STANDARDS["in-domain"])
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["perplexity"]["points"]["splice"][0]["perplexity"]["per_token"] == 200.0
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "| 0.5 | 90.0 | 1.80 | 1.80 | 0.45 | 0.75 | 0.900 |" in markdown
    assert "| naive splice | 200.0 | 4.00 | 4.00 | 0.900 |" in markdown


def test_figures_are_png(inspection, tmp_path):
    draw_inspection(replace(inspection, fluency=FLUENCY), tmp_path)
    names = ["conditions.png", "faithfulness.png", "perplexity.png", "precision.png", "share.png"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in names)
