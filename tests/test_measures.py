import pytest

from linda.measures import (
    WordOrigins,
    ends_like_a_sentence,
    faithfulness,
    has_content_words_of_all,
    has_content_words_of_both,
    largest_step,
    mean_precisions,
    mean_share_of_first,
    mean_shares,
    most_repeated_trigram,
    precisions,
    repeated_trigram_rate,
    repeats_itself,
    same_text,
    share_of_first,
    shares,
    unigram_precision,
    words,
)

A = "The cat sat on the mat."
B = "The dog ran in a park."


def test_words_are_case_folded_and_without_punctuation():
    assert words("The CAT's twenty-one — “Straße”, 3.5!") == [
        "the",
        "cat's",
        "twenty-one",
        "strasse",
        "3",
        "5",
    ]
    assert words("snake_case 🙂 …") == ["snake", "case"]


def test_scripts_without_spaces_count_by_character():
    assert words("猫が好き, ok") == ["猫", "が", "好", "き", "ok"]


def test_unigram_precision_is_clipped_and_has_no_brevity_penalty():
    assert unigram_precision("the the the", A) == pytest.approx(2 / 3)  # "the" stands twice in A
    assert unigram_precision("cat", A) == 1.0
    assert unigram_precision("a dog sat", A) == pytest.approx(1 / 3)


def test_unigram_precision_without_words():
    assert unigram_precision("...", A) == 0.0
    assert unigram_precision("...", "!") == 1.0
    assert unigram_precision(A, "") == 0.0


def test_share_is_exact_at_the_ends_although_the_texts_overlap():
    assert share_of_first(A, A, B) == 1.0
    assert share_of_first(B, A, B) == 0.0


def test_share_by_hand():
    # Six words. Against a 3/6, against b 4/6 ("the" is in both); each text alone has 1/6 of the other.
    assert share_of_first("the cat sat ran in a", A, B) == pytest.approx((3 - 1) / ((3 - 1) + (4 - 1)))


def test_share_of_what_owes_nothing_is_a_half():
    assert share_of_first("Quite unrelated words", A, B) == 0.5
    assert share_of_first("", A, B) == 0.5
    assert share_of_first("anything", A, A) == 0.5


def test_mean_share_weighs_pairs_by_what_they_show():
    # The first output copies a; the second has no words of either. The mean of the shares would be 0.75.
    a, b = ["one two", "five six"], ["three four", "seven eight"]
    assert mean_share_of_first(["one two", "nine ten"], a, b) == 1.0


def test_mean_share_averages_precisions_before_the_ratio():
    a, b = ["one two", "five six"], ["three four", "seven eight"]
    outputs = ["one two", "five seven"]  # against a: 1, 1/2; against b: 0, 1/2
    assert mean_share_of_first(outputs, a, b) == pytest.approx(0.75)
    mean = mean_precisions([precisions(output, pair) for output, *pair in zip(outputs, a, b, strict=True)])
    assert (mean[0][0], mean[1][0]) == (0.75, 0.25)


def test_shares_of_several_texts():
    texts = ["one two three four", "five six one seven", "eight nine ten one"]
    for t, text in enumerate(texts):
        assert shares(text, texts) == [float(u == t) for u in range(3)]
    # Two of three words of the first, one of the third; P(u, t) is a quarter for all.
    expected = (2 / 3 - 1 / 4) / (2 / 3 - 1 / 4 + 1 / 3 - 1 / 4)
    assert shares("two three nine", texts) == pytest.approx([expected, 0, 1 - expected])
    assert shares("unrelated", texts) == pytest.approx([1 / 3] * 3)
    for output in ("the cat sat ran in a", A, "unrelated"):
        assert shares(output, [A, B]) == pytest.approx([share_of_first(output, A, B), 1 - share_of_first(output, A, B)])


def test_mean_shares_average_precisions_before_the_ratio():
    rows = [["one two", "three four", "five six"]] * 2
    assert mean_shares(["one three", "one one two"], rows) == pytest.approx(
        [(1 / 2 + 2 / 3) / (1 / 2 + 2 / 3 + 1 / 2), (1 / 2) / (1 / 2 + 2 / 3 + 1 / 2), 0]
    )
    a, b = ["one two", "three four"], ["five six", "seven"]
    outputs = ["one five", "three seven four"]
    pairs = [list(pair) for pair in zip(a, b, strict=True)]
    assert mean_shares(outputs, pairs)[0] == pytest.approx(mean_share_of_first(outputs, a, b))


def test_content_words_of_all():
    texts = ["the red house", "a red boat", "this blue sea"]
    assert has_content_words_of_all("the house, a boat, the sea", texts)
    assert not has_content_words_of_all("a red house by the sea", texts)  # of the boat, only what the house has too
    assert not has_content_words_of_all("a house and a boat", texts)


def test_word_origins_obey_inclusion_and_exclusion():
    origins = WordOrigins.of("the the cat ran away", A, B)
    assert origins.in_a == pytest.approx(3 / 5)
    assert origins.in_b == pytest.approx(2 / 5)  # one "the", one "ran"
    assert origins.either == pytest.approx(4 / 5)
    assert origins.neither == pytest.approx(1 / 5)


@pytest.mark.parametrize(
    ("output", "both"),
    [
        ("The cat ran.", True),
        ("the CAT in a PARK", True),
        ("The cat sat.", False),  # only of a
        ("The cat sat in a house.", False),  # "in" and "a" are words of b, but function words
        ("All in all, on the whole.", False),
        ("", False),
    ],
)
def test_content_words_of_both(output, both):
    assert has_content_words_of_both(output, A, B) is both


def test_a_content_word_of_both_texts_is_no_sign_of_either():
    assert not has_content_words_of_both("cats sat", "cats sat", "cats ran")
    assert has_content_words_of_both("cats sat ran", "cats sat", "cats ran")


def test_faithfulness_is_the_share_of_words_found_if_both_texts_are_there():
    assert faithfulness("the cat ran home", A, B) == 3 / 4
    assert faithfulness(A, A, B) == 0.0  # a copy
    assert faithfulness("all in all", A, B) == 0.0


def test_largest_step():
    assert largest_step([0.0, 0.1, 0.4, 0.3, 1.0]) == pytest.approx(0.7)
    assert largest_step([0.0, 0.0, 1.0, 1.0]) == 1.0


def test_words_that_a_crossover_has_from_both_texts_are_found_but_loops_are_not():
    # "the" occurs three times in A and B together.
    assert WordOrigins.of("the cat sat on the mat the dog ran", A, B).either == 1.0
    assert WordOrigins.of("the the the the the dog", A, B).either == pytest.approx(4 / 6)


def test_same_text_folds_spaces_and_case():
    assert same_text("I do n't  KNOW .", "i don't know.")
    assert not same_text("I don't know", "I don't know.")


def test_repeated_trigrams():
    assert most_repeated_trigram("a b c d") == 1
    assert most_repeated_trigram("no no") == 0
    assert most_repeated_trigram("no, no, no, no, no") == 3
    assert repeated_trigram_rate("no no no no no") == pytest.approx(2 / 3)
    assert repeated_trigram_rate("a b c d") == 0.0


@pytest.mark.parametrize(
    ("text", "loops"),
    [
        ("no, no, no, no, no", True),
        ("no, no, no, no", False),
        ("Sodududududu is located", True),
        ("as affffff", True),
        ("a banana for 1000000 people", False),
    ],
)
def test_repeats_itself(text, loops):
    assert repeats_itself(text) is loops


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("Yes.", True),
        ('He said "go!"', True),
        ("(really?) ", True),
        ("it ends .", True),
        ("好。", True),
        ("no,", False),
        ("", False),
    ],
)
def test_ends_like_a_sentence(text, ends):
    assert ends_like_a_sentence(text) is ends
