"""Three or more texts: the search compared to brute force, and `Interpolator.mix` with weights."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from linda.crossovers import ChainSearch, Crossover, CutText, SeamScores
from linda.crossovers.search import LENGTH_RANGE, SHARE_TOLERANCE
from linda.engines import NAMES
from linda.errors import LindaError
from linda.interpolation import Interpolator
from linda.interpolation.rows import rows_to_mix
from linda.measures.word_overlap import words
from linda.model import LindaModel
from tiny_models import ATTENTION_WINDOW

A = "the old cat sat on a red river and ran in the sun."
B = "where was my small dog when we saw one woman of that town?"
C = "who is this tall man with four blue birds at his home?"
D = "they never told us about their new green boat near it."
TEXTS = [A, B, C]
WEIGHTS = [[1 / 3, 1 / 3, 1 / 3], [0.5, 0.3, 0.2], [0.2, 0.2, 0.6]]


@pytest.fixture(scope="module", params=NAMES)
def linda(tiny_attention_folder: Path, request: pytest.FixtureRequest) -> Interpolator:
    return Interpolator.from_pretrained(tiny_attention_folder, device="cpu", engine=request.param)


@pytest.fixture(scope="module")
def exact(tiny_attention_folder: Path) -> Interpolator:
    return Interpolator.from_pretrained(tiny_attention_folder, device="cpu", engine="torch")


def cut(texts: list[str]) -> list[CutText]:
    return [CutText(text, " ".join(texts[:t] + texts[t + 1 :])) for t, text in enumerate(texts)]


class TestSearch:
    """All chunks are content words that no other text has, and have one token."""

    TEXTS = ("kim ate rye bread daily", "lions hunt (grey zebras) near rivers", "jazz music fills seven rooms")

    def random_scores(self, texts: list[CutText], per_token: float, seed: int = 0) -> SeamScores:
        random = np.random.default_rng(seed)
        pairs = itertools.permutations(range(len(texts)), 2)
        return SeamScores(
            seams={(x, y): random.normal(size=(len(texts[x]) + 1, len(texts[y]) + 1)) * 3 for x, y in pairs},
            runs=[np.concatenate([[0], random.normal(size=len(text)).cumsum()]) for text in texts],
            lengths=[np.arange(len(text) + 1) for text in texts],
            per_token=per_token,
        )

    def brute_force(self, texts: list[CutText], scores: SeamScores, weights: list[float]) -> dict[tuple, float]:
        """The score of every crossover with one run of each text."""
        found = {}
        wanted = sum(weight * len(text) for weight, text in zip(weights, texts, strict=True))
        for x, y, z in itertools.permutations(range(3)):
            inner = [range(1, len(text)) for text in texts]
            for i, j, k, end in itertools.product(inner[x], inner[y], inner[y], inner[z]):
                if k <= j:
                    continue
                runs = (x, 0, i), (y, j, k), (z, end, len(texts[z]))
                length = sum(stop - start for _, start, stop in runs)
                off = max(abs((stop - start) / length - weights[t]) for t, start, stop in runs)
                if off > SHARE_TOLERANCE + 1e-9 or not LENGTH_RANGE[0] <= length / wanted <= LENGTH_RANGE[1]:
                    continue
                worth = sum(scores.runs[t][stop] - scores.runs[t][start] for t, start, stop in runs)
                worth += scores.seams[x, y][i, j] + scores.seams[y, z][k, end]
                worth = scores.per_token * worth / (length + 1) if scores.per_token else worth
                text = " ".join(chunk for t, start, stop in runs for chunk in texts[t].chunks[start:stop])
                unbalanced = abs(text.count("(") - text.count(")"))
                farther = any(abs((stop - start) / length - weights[t]) > 0.6 * weights[t] for t, start, stop in runs)
                penalty = 4 * off + 1.5 * abs(math.log(length / wanted)) + 1.5 * unbalanced + 100 * farther
                found[runs] = worth - penalty
        return found

    @pytest.mark.parametrize("per_token", [0.0, 8.0])
    @pytest.mark.parametrize("weights", WEIGHTS, ids=str)
    def test_all_crossovers_are_found_with_their_scores(self, weights: list[float], per_token: float) -> None:
        texts = cut([*self.TEXTS])
        scores = self.random_scores(texts, per_token)
        expected = self.brute_force(texts, scores, weights)
        found = ChainSearch(texts, scores).best(weights, 10**6)
        assert len(found) > 10
        assert {crossover.runs: crossover.score for crossover in found} == pytest.approx(expected)
        ordered = [crossover.score for crossover in found]
        assert ordered == sorted(ordered, reverse=True)
        assert ChainSearch(texts, scores).best(weights, 3) == found[:3]

    def test_the_share_is_that_of_the_first_text(self) -> None:
        texts = cut([*self.TEXTS])
        for crossover in ChainSearch(texts, self.random_scores(texts, 8.0)).best(WEIGHTS[1], 20):
            lengths = {t: stop - start for t, start, stop in crossover.runs}
            assert crossover.share == pytest.approx(lengths[0] / sum(lengths.values()))
            assert crossover.text(*texts) == " ".join(
                chunk for t, start, stop in crossover.runs for chunk in texts[t].chunks[start:stop]
            )

    def test_five_texts(self) -> None:
        texts = cut([A, B, C, D, "our big white house has nine rather dark rooms upstairs now."])
        for crossover in ChainSearch(texts, self.random_scores(texts, 8.0)).best([0.2] * 5, 5):
            assert sorted(t for t, _, _ in crossover.runs) == [0, 1, 2, 3, 4]
            assert len(crossover.seams) == 4

    def test_texts_without_words_of_their_own_have_no_crossover(self) -> None:
        texts = cut(["kim ate rye bread", "bread kim rye ate", "jazz music fills rooms"])
        assert ChainSearch(texts, self.random_scores(texts, 8.0)).best(WEIGHTS[0]) == []

    def test_seams(self) -> None:
        assert Crossover(((0, 0, 2), (1, 1, 3), (2, 3, 5)), 0.3, 0.0).seams == [(0, 2, 1, 1), (1, 3, 2, 3)]


class TestMix:
    @pytest.mark.parametrize("weights", WEIGHTS, ids=str)
    def test_one_run_of_each_text_with_its_share(self, linda: Interpolator, weights: list[float]) -> None:
        text = linda.mix(TEXTS, weights=weights)
        origins = [t for word in words(text) for t, source in enumerate(TEXTS) if word in words(source)]
        assert len(origins) == len(words(text))  # no word is in two of the texts
        assert len([*itertools.groupby(origins)]) == 3
        for t, weight in enumerate(weights):
            assert origins.count(t) / len(origins) == pytest.approx(weight, abs=SHARE_TOLERANCE + 1e-9)

    def test_the_order_of_the_texts_does_not_matter(self, exact: Interpolator) -> None:
        expected = exact.mix(TEXTS, weights=WEIGHTS[1])
        for order in itertools.permutations(range(3)):
            weights = [WEIGHTS[1][t] for t in order]
            assert exact.mix([TEXTS[t] for t in order], weights=weights) == expected

    def test_only_the_ratios_of_the_weights_matter(self, exact: Interpolator) -> None:
        expected = exact.mix(TEXTS, weights=[0.5, 0.3, 0.2])
        for weights in ((5, 3, 2), np.array([50, 30, 20]), torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)):
            assert exact.mix(TEXTS, weights=weights) == expected
        assert exact.mix(TEXTS) == exact.mix(TEXTS, weights=[1, 1, 1])

    def test_two_positive_weights_are_a_pair(self, exact: Interpolator) -> None:
        assert exact.mix([A, C], weights=[0.3, 0.7]) == exact.mix(A, C, 0.3)
        assert exact.mix(TEXTS, weights=[0.3, 0, 0.7]) == exact.mix(A, C, 0.3)
        assert exact.mix(TEXTS, weights=[3, 0, 7], n=3) == exact.mix(A, C, 0.3, n=3)
        assert exact.mix([A, A.upper(), C], weights=[0.1, 0.2, 0.7]) == exact.mix(A, C, 0.1 + 0.2)
        drawn = exact.mix([[A] * 2, [C] * 2], weights=[0.4, 0.6], sample=True, n=2, seed=5)
        assert drawn == exact.mix([A] * 2, [C] * 2, 0.4, sample=True, n=2, seed=5)

    def test_a_single_positive_weight_is_the_text_itself(self, exact: Interpolator) -> None:
        odd = "two  spaces\tand 🙂\n漢字"
        assert exact.mix([A, odd, C], weights=[0, 1, 0]) == odd
        assert exact.mix([A, odd, C], weights=[0.01, 0.98, 0.01]) == odd  # less than half a word of the others
        assert exact.mix([odd, odd, odd]) == odd

    def test_lists_of_rows(self, linda: Interpolator) -> None:
        columns = [A, B], [B, C], [C, D]
        together = linda.mix(columns, weights=WEIGHTS[1:])
        assert together == [linda.mix(TEXTS, weights=WEIGHTS[1]), linda.mix([B, C, D], weights=WEIGHTS[2])]
        assert linda.mix(columns, weights=WEIGHTS[1])[0] == together[0]
        assert linda.mix(columns, n=2) == [linda.mix(TEXTS, n=2), linda.mix([B, C, D], n=2)]
        assert linda.mix([[], [], []]) == []

    def test_candidates_and_samples(self, exact: Interpolator) -> None:
        best = exact.mix(TEXTS, weights=WEIGHTS[1], n=4)
        assert len({*best}) == 4
        assert best[0] == exact.mix(TEXTS, weights=WEIGHTS[1])
        drawn = [exact.mix(TEXTS, sample=True, temperature=5.0, n=3, seed=seed) for seed in (1, 1, 2)]
        assert drawn[0] == drawn[1] != drawn[2]

    @pytest.mark.parametrize("settings", [{}, {"sample": True, "n": 2}], ids=str)
    def test_a_row_depends_neither_on_the_others_nor_on_the_batch(self, linda: Interpolator, settings: dict) -> None:
        rows = [
            (TEXTS, WEIGHTS[0], 1),
            (A, B, 0.5, 2),
            ([A, B, C, D], [0.25] * 4, 3),
            (["yes", "no", "the old dog"], WEIGHTS[0], 4),
            ([B, C, D], WEIGHTS[2], 5),
            ([A * 5, B, C], WEIGHTS[1], 6),
        ]
        told: list[int] = []
        expected = list(linda.mix_stream(rows, on_progress=told.append, **settings))
        assert sum(told) == len(rows)
        for batch_tokens in (1, 300):
            assert list(linda.mix_stream(rows, batch_tokens=batch_tokens, **settings)) == expected
        assert list(linda.mix_stream(rows[::-1], **settings)) == expected[::-1]

    def test_texts_without_a_crossover_lose_the_lightest(self, exact: Interpolator) -> None:
        short = "yes"  # cannot be cut
        weights = [0.4, 0.35, 0.25]
        assert exact.mix([A, B, short], weights=weights) == exact.mix(A, B, 0.4 / (0.4 + 0.35))
        for texts in (["yes", "no", "ok"], ["the river", "river the", "the the river"]):
            assert exact.mix(texts).strip()
            assert len(exact.mix(texts, n=3)) == 3

    def test_more_candidates_than_crossovers(self, exact: Interpolator) -> None:
        texts = ["the cat sat down", "a dog ran off", "who saw one man"]
        found = exact.mix(texts, n=40, sample=True)
        assert len(found) == 40
        assert exact.mix(texts, n=1, sample=True) == found[0]

    def test_long_texts_are_mixed_sentence_by_sentence(self, exact: Interpolator) -> None:
        long = [" ".join([A] * 4), "\n\n".join([B] * 4), " ".join([C, D] * 2)]
        assert max(len(exact.tokens.ids(text)) for text in long) > ATTENTION_WINDOW
        weights = [0.3, 0.4, 0.3]
        expected = [exact.mix([A, B, other], weights=weights) for other in (C, D, C, D)]
        assert exact.mix(long, weights=weights) == "\n\n".join(expected)
        # Sentences that are equal are one text with both weights.
        equal = [" ".join([A] * 4), " ".join([A] * 4) + " " + A, " ".join([C] * 4)]
        assert exact.mix(equal, weights=[0.3, 0.3, 0.4]).startswith(exact.mix(A, C, 0.6))
        assert exact.mix(long, weights=[0, 1, 0]) == long[1]


class TestBadInput:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (([A],), "got 1 text to mix; give two or more"),
            (([],), "got 0 texts to mix; give two or more"),
            (([A, " ", C],), "text 2 is empty"),
            (([A, [B], C],), "must all be texts or all be lists of texts"),
            (([A, 3, C],), "must all be texts or all be lists of texts"),
            (([[A], [B], [3]],), "text 3 is 3, not a text"),
            (([[A, A], [B, B], [C, ""]],), "text 3 of row 2 is empty"),
            (([[A, A], [B], [C]],), "the lists of texts have 2, 1, 1 texts; give the same number in each"),
            ((TEXTS, None, 0.3), "alpha=0.3 is for two texts a and b; for a list of texts, give weights"),
            ((A, None), "one of each"),
        ],
    )
    def test_texts(self, exact: Interpolator, arguments: tuple, message: str) -> None:
        with pytest.raises(LindaError) as caught:
            exact.mix(*arguments)
        assert message in str(caught.value)

    @pytest.mark.parametrize(
        ("weights", "message"),
        [
            ([0.5, 0.5], "got 2 weights for 3 texts; give one weight per text"),
            ([], "got 0 weights for 3 texts"),
            (0.5, "weights is 0.5; give a list of numbers"),
            ("0.5,0.3,0.2", "weights is '0.5,0.3,0.2'; give a list of numbers"),
            ([0.5, -0.1, 0.6], "weight 2 is -0.1; it must be a number of 0 or more"),
            ([0.5, math.nan, 0.6], "weight 2 is nan"),
            ([0.5, math.inf, 0.6], "weight 2 is inf"),
            ([0.5, "x", 0.6], "weight 2 is 'x'"),
            ([0, 0, 0], "the weights sum to 0; give at least one above 0"),
            ([[0.5, 0.3, 0.2]] * 2, "got 2 lists of weights for 1 rows"),
            ([[0.5, 0.5]], "got 2 weights for 3 texts"),
        ],
        ids=str,
    )
    def test_weights(self, exact: Interpolator, weights: object, message: str) -> None:
        with pytest.raises(LindaError) as caught:
            exact.mix(TEXTS, weights=weights)
        assert message in str(caught.value)

    def test_the_row_of_bad_weights_is_named(self) -> None:
        with pytest.raises(LindaError, match=r"weight 3 of row 2 is -1"):
            rows_to_mix([[A, A], [B, B], [C, C]], None, 0.5, [[1, 1, 1], [1, 1, -1]], 0)

    def test_weights_of_a_pair_are_its_ratio(self, exact: Interpolator) -> None:
        with pytest.raises(LindaError, match=r"weights are for a list of texts: mix\(\[a, b, c\], weights="):
            exact.mix(A, B, weights=[0.5, 0.5])

    def test_models_and_settings_that_take_two_texts(self, exact: Interpolator, tiny_model: LindaModel) -> None:
        by_states = Interpolator.of(tiny_model, "torch")
        for linda, settings in ((exact, {"raw": True}), (exact, {"copies": True}), (by_states, {})):
            with pytest.raises(LindaError, match="3 texts can be mixed only by a model that mixes by attention"):
                linda.mix(TEXTS, **settings)
            assert linda.mix(TEXTS, weights=[0.6, 0, 0.4], **settings) == linda.mix(A, C, 0.6, **settings)
