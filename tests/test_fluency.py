import math
from random import Random

import pytest
import torch

from linda.errors import LindaError
from linda.measures.fluency import LanguageModel, Perplexity, TextLoss, shuffled_words, word_mix


@pytest.fixture(scope="module")
def language_model(language_model_folder):
    return LanguageModel.load(language_model_folder)


def test_loss_sums_over_every_token_the_first_included(language_model):
    (loss,) = language_model.losses(["the cat sat"])
    ids = torch.tensor([[1, 2, 3, 4]])  # <s> the cat sat
    log_p = language_model.model(ids).logits[0].log_softmax(-1)
    assert loss.nats == pytest.approx(-sum(log_p[i, ids[0, i + 1]].item() for i in range(3)), rel=1e-5)
    assert (loss.tokens, loss.words) == (3, 3)


def test_of_a_long_text_only_the_words_that_are_read_count(language_model):
    (loss,) = language_model.losses(["the cat sat " * 300])
    assert (loss.tokens, loss.words) == (512, 512)


def test_a_text_costs_the_same_in_any_company(language_model):
    texts = ["the cat sat on the mat", "dog", "", "the dog sat"]
    together = language_model.losses(texts)
    alone = [language_model.losses([text])[0] for text in texts]
    assert [loss.nats for loss in together] == pytest.approx([loss.nats for loss in alone], rel=1e-5)
    assert together[2] == TextLoss(0.0, 0, 0)


def test_perplexity_is_of_the_set_as_a_whole():
    losses = [TextLoss(nats=6.0, tokens=4, words=2), TextLoss(nats=2.0, tokens=4, words=2)]
    assert Perplexity.of(losses) == Perplexity(per_token=pytest.approx(math.e), per_word=pytest.approx(math.e**2))


def test_a_folder_that_is_no_language_model_is_an_error_that_names_it(tmp_path):
    with pytest.raises(LindaError, match=str(tmp_path)):
        LanguageModel.load(tmp_path)


def test_two_gguf_files_must_be_told_apart(tmp_path):
    for name in ("one.gguf", "two.gguf"):
        (tmp_path / name).touch()
    with pytest.raises(LindaError, match=r"one\.gguf, two\.gguf"):
        LanguageModel.load(tmp_path)


def test_word_mix_keeps_places_and_length():
    a, b = "a1 a2 a3 a4", "b1 b2 b3 b4 b5 b6 b7 b8"
    assert word_mix(a, b, 1.0, Random(0)) == a
    assert word_mix(a, b, 0.0, Random(0)) == b
    mixed = word_mix(a, b, 0.5, Random(0)).split()
    assert len(mixed) == 6
    assert {word[0] for word in mixed} == {"a", "b"}
    for source in "ab":
        places = [int(word[1]) for word in mixed if word[0] == source]
        assert places == sorted(places)


def test_shuffled_words_are_the_same_words():
    text = "one two three four five six"
    assert shuffled_words(text, Random(1)) != text
    assert sorted(shuffled_words(text, Random(1)).split()) == sorted(text.split())
