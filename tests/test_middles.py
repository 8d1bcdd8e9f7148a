"""Crossovers: the search compared to brute force, the ranking compared to scoring all candidates in full."""

import itertools
import json
import math
from collections import Counter

import pytest

from linda.crossovers import Crossover, CutText, naive_splice
from linda.crossovers.search import LENGTH_RANGE, SHARE_TOLERANCE
from linda.errors import LindaError
from linda.measures.fluency import LanguageModel
from linda.measures.word_overlap import FUNCTION_WORDS, words
from linda.middles import making, rerank
from linda.middles.making import MiddlesPlan, Source, TextPair, draw_text_pairs, make_middles, shard_path, write_shards
from linda.middles.ngrams import TrigramModel, tokens_of
from linda.middles.seams import trigram_search
from tiny_models import language_model_of_sentences

SENTENCES = [
    "The old man walked to the river and sat down on a stone.",
    "The old house near the river was sold to a young man.",
    "A young woman walked to the market and bought a loaf of bread.",
    "She sat down near the window and read a letter from her brother.",
    "He bought a house (a small one) and sold the bread at the market.",
    "The letter from her brother was read to the old woman.",
    "Her brother said that the river was cold and the house was warm.",
    "They walked to the house and read a book about the sea.",
]


@pytest.fixture(scope="module")
def trigrams():
    return TrigramModel.build(SENTENCES, min_word_count=1, min_trigram_count=1)


def cut(a, b):
    return CutText(a, b), CutText(b, a)


class BruteForce:
    """The scores of the module docstrings, one word at a time."""

    def __init__(self):
        self.unigrams, self.bigrams, self.trigrams = Counter(), Counter(), Counter()
        run = [w for s in SENTENCES for w in ["<s>", "<s>", *tokens_of(s), "</s>"]]
        self.unigrams.update(run)
        self.bigrams.update(itertools.pairwise(run))
        self.trigrams.update(zip(run, run[1:], run[2:], strict=False))

    def log_p(self, u, v, w):
        if self.trigrams[u, v, w]:
            return math.log(self.trigrams[u, v, w] / self.bigrams[u, v])
        if self.bigrams[v, w]:
            return math.log(0.4 * self.bigrams[v, w] / self.unigrams[v])
        return math.log(0.16 * max(1, self.unigrams[w]) / self.unigrams.total())

    def log_unigram(self, w):
        return math.log(self.unigrams[w] / self.unigrams.total())

    def seam(self, before, own, after):
        """before, own: the tokens before the seam, there and in the text that `after` is from."""
        u1, u2 = [*["<s>"] * 2, *before][-2:]
        o1, o2 = [*["<s>"] * 2, *own][-2:]
        v1, v2 = [*after, "</s>"][:2]
        there = self.log_p(u1, u2, v1), self.log_p(u2, v1, v2)
        at_home = self.log_p(o1, o2, v1), self.log_p(o2, v1, v2)
        cost = sum(min(0, x - y) for x, y in zip(there, at_home, strict=True))
        attraction = there[0] - self.log_unigram(v1) + 0.5 * (there[1] - self.log_unigram(v2))
        return 0.6 * cost + 0.4 * attraction

    def crossovers(self, a, b, alpha):
        """Every crossover that is allowed, and its score."""
        texts = a.split(), b.split()
        tokens = [tokens_of(word) for word in texts[0]], [tokens_of(word) for word in texts[1]]
        flat = [list(itertools.chain(*side)) for side in tokens]
        wanted = alpha * len(flat[0]) + (1 - alpha) * len(flat[1])
        found = {}
        for first in (0, 1):
            n, m = len(texts[first]), len(texts[1 - first])
            one = (((first, 0, i), (1 - first, j, m)) for i in range(1, n) for j in range(1, m))
            two = (
                ((first, 0, i), (1 - first, j, k), (first, end, n))
                for i in range(1, n)
                for j in range(1, m)
                for k in range(j + 2, m)
                for end in range(i, n)
            )
            for runs in itertools.chain(one, two):
                score = self.score(runs, a, b, tokens, alpha, wanted)
                if score is not None:
                    text = Crossover(runs, 0.0, 0.0).text(*cut(a, b))  # several may give the same text: the best counts
                    found[text] = max(score, found.get(text, -math.inf))
        return found

    def score(self, runs, a, b, tokens, alpha, wanted):
        shared = {*words(a)} & {*words(b)}
        own = [
            [w for t, i, j in runs if t == side for chunk in (a, b)[t].split()[i:j] for w in words(chunk)]
            for side in (0, 1)
        ]
        own = [[w for w in side if w not in shared] for side in own]
        if not all(any(w not in FUNCTION_WORDS for w in side) for side in own):
            return None
        share = len(own[0]) / (len(own[0]) + len(own[1]))
        parts = [list(itertools.chain(*tokens[t][i:j])) for t, i, j in runs]
        length = sum(map(len, parts)) / wanted
        if abs(share - alpha) > SHARE_TOLERANCE + 1e-9 or not LENGTH_RANGE[0] <= length <= LENGTH_RANGE[1]:
            return None
        chunks = [[word.casefold() for word in (a, b)[t].split()[i:j]] for t, i, j in runs]
        run = list(itertools.chain(*chunks))
        trigrams = list(zip(run, run[1:], run[2:], strict=False))
        if len(set(trigrams)) < len(trigrams) or any(x[-1] == y[0] for x, y in itertools.pairwise(chunks)):
            return None
        text = " ".join(run)
        is_farther = abs(share - alpha) > 0.6 * min(alpha, 1 - alpha) + 1e-9
        score = (
            -4 * abs(share - alpha)
            - 100 * is_farther
            - 1.5 * abs(math.log(length))
            - 1.5 * abs(text.count("(") - text.count(")"))
        )
        for (t, _, stop), (s, start, _) in itertools.pairwise(runs):
            before, at_home = (list(itertools.chain(*tokens[x][:y])) for x, y in ((t, stop), (s, start)))
            score += self.seam(before, at_home, list(itertools.chain(*tokens[s][start:])))
        return score - 2.5 * (len(runs) - 2)


@pytest.mark.parametrize("alpha", [0.12, 0.3, 0.5, 0.75])
@pytest.mark.parametrize(("first", "second"), [(0, 1), (2, 5), (4, 3), (6, 7)])
def test_the_search_finds_what_brute_force_finds(trigrams, monkeypatch, first, second, alpha):
    monkeypatch.setattr("linda.crossovers.search.SEAMS_PER_DIRECTION", 10**6)
    a, b = SENTENCES[first], SENTENCES[second]
    expected = BruteForce().crossovers(a, b, alpha)
    *texts, search = trigram_search(a, b, trigrams)
    found = search.best(alpha, count=10**6)
    assert {c.text(*texts): c.score for c in found} == pytest.approx(expected, abs=1e-9)
    assert [c.score for c in found] == pytest.approx(sorted(expected.values(), reverse=True))
    assert len(found) > 5


def test_the_best_few_are_the_first_of_all(trigrams):
    *_, search = trigram_search(SENTENCES[0], SENTENCES[3], trigrams)
    assert search.best(0.5, 3) == search.best(0.5, 12)[:3]


def test_a_crossover_is_made_of_runs_of_both_texts(trigrams):
    a, b = SENTENCES[0], SENTENCES[3]
    *texts, search = trigram_search(a, b, trigrams)
    for crossover in search.best(0.5):
        pieces = [" ".join((a, b)[t].split()[i:j]) for t, i, j in crossover.runs]
        assert crossover.text(*texts) == " ".join(pieces)
        assert crossover.text(*texts) not in (a, b)


@pytest.mark.parametrize(("a", "b"), [("Yes", "No"), ("", "The river was cold."), ("The river", "the river")])
def test_texts_too_short_or_too_alike_have_no_crossover(trigrams, a, b):
    *_, search = trigram_search(a, b, trigrams)
    assert search.best(0.5) == []


def test_unknown_words_and_rare_characters_can_be_cut(trigrams):
    *_, search = trigram_search("日本 語 is 🙂 hard (", "zzz qqq \u200b yyy !!", trigrams)
    found = search.best(0.5)
    assert found
    assert all(math.isfinite(c.score) for c in found)


def test_scripts_without_spaces_are_cut_between_characters():
    a, b = cut("今日は天気がいい", "明日 rain に なる")
    assert Crossover(((0, 0, 3), (1, 2, 5)), 0.5, 0.0).text(a, b) == "今日は rain に な"
    assert Crossover(((1, 0, 3), (0, 6, 8)), 0.5, 0.0).text(a, b) == "明日 rainいい"


def test_white_space_inside_a_run_is_kept():
    a, b = cut("one  two\tthree four", "five six\nseven eight")
    assert Crossover(((0, 0, 3), (1, 2, 4)), 0.5, 0.0).text(a, b) == "one  two\tthree\nseven eight"


def test_the_naive_splice_is_half_and_half():
    assert naive_splice("a1 a2 a3 a4", "b1 b2 b3 b4 b5 b6") == "a1 a2 b4 b5 b6"


def test_a_saved_table_gives_the_same_probabilities(trigrams, tmp_path):
    trigrams.save(tmp_path / "table.safetensors")
    again = TrigramModel.load(tmp_path / "table.safetensors")
    ids = again.ids(tokens_of("the old woman walked to the sea"))
    assert again.log_trigram(ids[:-2], ids[1:-1], ids[2:]).tolist() == pytest.approx(
        trigrams.log_trigram(ids[:-2], ids[1:-1], ids[2:]).tolist()
    )


def test_a_file_that_is_no_table_is_refused(tmp_path):
    (tmp_path / "x").write_text("no table")
    with pytest.raises(LindaError, match="linda middles table"):
        TrigramModel.load(tmp_path / "x")


@pytest.fixture(scope="module")
def language_model():
    """A small model of random weights over the words of the sentences; a space belongs to the word after it."""
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    return LanguageModel(*language_model_of_sentences(SENTENCES, **sizes, num_key_value_heads=2))


def test_the_ranker_scores_as_if_it_had_read_every_candidate(language_model, trigrams, monkeypatch):
    monkeypatch.setattr(rerank, "_SEAM_TOKENS", 100)
    monkeypatch.setattr(rerank, "_SHARE_WEIGHT", 0.0)
    pairs = [(SENTENCES[0], SENTENCES[3]), (SENTENCES[5], SENTENCES[6]), (SENTENCES[1], SENTENCES[2])]
    candidates = []
    for a, b in pairs:
        *_, search = trigram_search(a, b, trigrams)
        # With two seams, the middle run is scored in the context of its own text, so only one seam is exact.
        candidates.append(
            [(ratio, [c for c in search.best(ratio, 30) if len(c.runs) == 2][:6]) for ratio in (0.3, 0.6)]
        )
    ranked = rerank.SeamRanker(language_model).rank([cut(*pair) for pair in pairs], candidates)
    for (a, b), ratios, best in zip(pairs, candidates, ranked, strict=True):
        for (_, crossovers), ordered in zip(ratios, best, strict=True):
            losses = language_model.losses([c.text(*cut(a, b)) for c in ordered])
            means = [-loss.nats / loss.tokens for loss in losses]
            assert {c.runs for c in ordered} == {c.runs for c in crossovers}
            assert [c.score for c in ordered] == pytest.approx(means, abs=1e-4)
            assert means == pytest.approx(sorted(means, reverse=True), abs=1e-4)


def test_a_ratio_without_candidates_has_none(language_model):
    a, b = SENTENCES[0], SENTENCES[1]
    only = Crossover(((0, 0, 3), (1, 4, 12)), 0.5, 0.0)
    [[none, one]] = rerank.SeamRanker(language_model).rank([cut(a, b)], [[(0.2, []), (0.5, [only])]])
    assert none == []
    assert [c.runs for c in one] == [only.runs]


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    lines = [f"{'odd' if number % 2 else 'even'}\t{sentence}" for number, sentence in enumerate(SENTENCES * 4)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_pairs_are_of_one_kind_and_depend_on_the_seed_alone(corpus):
    plan = MiddlesPlan((Source(str(corpus), 1.0),), seed=3, restyled=0.0, joined=0.0)
    drawn = list(itertools.islice(draw_text_pairs(plan), 20))
    assert drawn == list(itertools.islice(draw_text_pairs(plan), 20))
    kind = {sentence: number % 2 for number, sentence in enumerate(SENTENCES)}
    assert all(kind[pair.a] == kind[pair.b] for pair in drawn)
    assert all(pair.a != pair.b for pair in drawn)
    assert all(low < high for pair in drawn for low, high in itertools.pairwise(pair.ratios))
    other = list(itertools.islice(draw_text_pairs(MiddlesPlan(plan.sources, seed=4, restyled=0.0, joined=0.0)), 20))
    assert [pair.ratios for pair in other] != [pair.ratios for pair in drawn]


def test_a_middle_says_what_it_is_made_of(trigrams):
    made = make_middles([TextPair(SENTENCES[0], SENTENCES[3], (0.3, 0.7))], trigrams, None)
    for middle in made:
        own = [{*words(middle.a)} - {*words(middle.b)}, {*words(middle.b)} - {*words(middle.a)}]
        counts = [sum(word in side for word in words(middle.target)) for side in own]
        assert middle.share == pytest.approx(counts[0] / sum(counts), abs=1e-4)
        assert abs(middle.share - middle.alpha) <= SHARE_TOLERANCE + 1e-4
    assert [middle.alpha for middle in made] == [0.3, 0.7]


def test_the_other_candidates_can_be_put_together_again(trigrams, language_model):
    pairs = [TextPair(SENTENCES[0], SENTENCES[3], (0.3, 0.6)), TextPair(SENTENCES[6], SENTENCES[2], (0.5,))]
    for middle in make_middles(pairs, trigrams, rerank.SeamRanker(language_model), candidates=5):
        texts = cut(middle.a, middle.b)
        assert len(middle.others) == 4
        assert [score for score, *_ in middle.others] == sorted((score for score, *_ in middle.others), reverse=True)
        for score, _, *flat in middle.others:
            runs = tuple(tuple(map(int, flat[i : i + 3])) for i in range(0, len(flat), 3))
            assert score <= middle.score
            assert Crossover(runs, 0.0, 0.0).text(*texts) != middle.target


def test_an_interrupted_run_goes_on_to_the_same_files(corpus, trigrams, language_model, tmp_path, monkeypatch):
    monkeypatch.setattr(making, "SHARD_PAIRS", 6)
    plan = MiddlesPlan((Source(str(corpus), 1.0),), seed=1)
    ranker = rerank.SeamRanker(language_model)
    write_shards(tmp_path / "whole", plan, trigrams, ranker, range(3))
    write_shards(tmp_path / "parts", plan, trigrams, ranker, [2])
    write_shards(tmp_path / "parts", plan, trigrams, ranker, range(3))
    for number in range(3):
        assert (
            shard_path(tmp_path / "whole", number).read_bytes() == shard_path(tmp_path / "parts", number).read_bytes()
        )


def test_middles_of_another_plan_are_not_mixed_in(corpus, trigrams, tmp_path):
    sources = (Source(str(corpus), 1.0),)
    write_shards(tmp_path / "out", MiddlesPlan(sources, seed=1), trigrams, None, [])
    assert json.loads((tmp_path / "out" / "plan.json").read_text())["seed"] == 1
    with pytest.raises(LindaError, match="other settings"):
        write_shards(tmp_path / "out", MiddlesPlan(sources, seed=2), trigrams, None, [])


def test_a_corpus_of_one_sentence_is_refused(tmp_path):
    (tmp_path / "one.txt").write_text("Only this sentence.\n")
    with pytest.raises(LindaError, match="no two sentences"):
        next(draw_text_pairs(MiddlesPlan((Source(str(tmp_path / "one.txt"), 1.0),))))


@pytest.mark.parametrize(
    ("given", "source"),
    [("a.txt", ("a.txt", 1.0)), ("a.txt=0.4", ("a.txt", 0.4)), ("lang=en.txt", ("lang=en.txt", 1.0))],
)
def test_a_share_may_follow_a_file(given, source):
    assert Source.parse(given) == Source(*source)


def test_a_share_must_be_above_zero():
    with pytest.raises(LindaError, match="must be a positive number"):
        Source.parse("a.txt=0")


def test_shares_are_numbers():
    with pytest.raises(LindaError, match="restyled is nan; it must be a number from 0 to 1"):
        MiddlesPlan((Source("a.txt", 1.0),), restyled=float("nan"))
