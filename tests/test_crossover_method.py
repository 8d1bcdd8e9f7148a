import pytest

from linda import methods
from linda.middles.ngrams import TrigramModel
from linda.middles.seams import trigram_search
from test_middles import SENTENCES

A, B = SENTENCES[0], SENTENCES[3]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "trigrams.safetensors"
    TrigramModel.build(SENTENCES, min_word_count=1, min_trigram_count=1).save(path)
    return path


def test_a_splice_joins_a_beginning_and_an_end():
    assert methods.load("splice").texts(["a b c d"], ["e f g h"], [0.5], [7]) == ["a b g h"]


def test_a_crossover_is_the_one_that_the_trigram_model_finds_best(table):
    first, second, search = trigram_search(A, B, TrigramModel.load(table))
    assert methods.load("crossover", trigrams=table).texts([A], [B], [0.5], [0]) == [
        search.best(0.5, 1)[0].text(first, second)
    ]


@pytest.mark.parametrize("name", ["splice", "crossover"])
def test_samples_depend_on_the_seed_alone(table, name):
    method = methods.load(name, **({"trigrams": table} if name == "crossover" else {})).sampling
    seeds = list(range(30))
    texts = method.texts([A] * 30, [B] * 30, [0.5] * 30, seeds)
    assert len(set(texts)) > 3
    assert [method.texts([A], [B], [0.5], [seed])[0] for seed in seeds] == texts


def test_texts_too_short_to_search_are_spliced(table):
    assert methods.load("crossover", trigrams=table).texts(["Yes"], ["Not at all"], [0.5], [0]) == ["Yes all"]


@pytest.mark.parametrize("name", ["splice", "crossover"])
def test_both_need_a_partner(table, name):
    method = methods.load(name, **({"trigrams": table} if name == "crossover" else {}))
    with pytest.raises(TypeError, match="partner"):
        method.texts([A], None, None, [0])
