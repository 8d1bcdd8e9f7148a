"""Sampling: independent for each row, and from the model's distribution."""

from collections import Counter

import pytest
import torch
from transformers import PreTrainedModel

from linda.engines.decoding import Decoding, Frame
from test_engines import VOCABULARY, build, check_samples_follow_the_seed, engine, marian, rows


def test_samples_follow_the_seed_and_not_the_number_asked_for() -> None:
    check_samples_follow_the_seed(engine(build(marian, ending=0.0)))


def first_tokens(model: PreTrainedModel, count: int, **settings: float) -> Counter:
    states, mask = rows(1)
    decoding = Decoding(sample=True, n=count, max_ratio=0.01, max_extra=3, **settings)
    [texts] = engine(model).decode(states, mask, decoding, seeds=[7])
    return Counter(text.ids[0] for text in texts)


def first_probabilities(model: PreTrainedModel, temperature: float) -> torch.Tensor:
    states, mask = rows(1)
    frame = Frame.of(model)
    with torch.no_grad():
        start = torch.tensor([[frame.start]])
        logits = model(encoder_outputs=(states,), attention_mask=mask, decoder_input_ids=start).logits[0, 0]
    logits[frame.banned] = -torch.inf
    return (logits / temperature).softmax(-1)


def test_samples_have_the_models_distribution() -> None:
    model = build(marian, ending=0.0)
    expected = first_probabilities(model, temperature=3.0)
    counts = first_tokens(model, 4000, temperature=3.0)
    drawn = torch.tensor([counts[token] / 4000 for token in range(VOCABULARY)])
    assert (drawn - expected).abs().max() < 0.03
    assert expected.max() < 0.6


def test_top_k_and_top_p_keep_the_likeliest_tokens_only() -> None:
    model = build(marian, ending=0.0)
    by_chance = first_probabilities(model, temperature=5.0).sort(descending=True)
    likeliest = by_chance.indices.tolist()
    assert set(first_tokens(model, 2000, temperature=5.0, top_k=4)) == set(likeliest[:4])
    nucleus = int((by_chance.values.cumsum(0) < 0.5).sum()) + 1  # the smallest set with half of the mass
    assert set(first_tokens(model, 2000, temperature=5.0, top_p=0.5)) == set(likeliest[:nucleus])
    half_of_four = int((by_chance.values[:4].cumsum(0) < 0.5 * by_chance.values[:4].sum()).sum()) + 1
    assert set(first_tokens(model, 2000, temperature=5.0, top_k=4, top_p=0.5)) == set(likeliest[:half_of_four])


def test_the_nucleus_is_found_in_a_large_flat_vocabulary() -> None:
    from linda.engines.search import _nucleus

    flat = torch.full((1, 5000), 1 / 5000)
    weights, tokens = _nucleus(flat, Decoding(sample=True, top_p=0.9))
    assert int((weights > 0).sum()) == pytest.approx(4500, abs=2)
    assert tokens is not None
