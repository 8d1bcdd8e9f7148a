"""The torch engine compared to `generate` of `transformers`, and its further guarantees."""

import math

import pytest
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    MBartConfig,
    MBartForConditionalGeneration,
    PegasusConfig,
    PegasusForConditionalGeneration,
    PreTrainedModel,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers.modeling_outputs import BaseModelOutput

from linda.engines import Engine, choose, paths
from linda.engines.attention import attention_bias
from linda.engines.decoding import Decoding, Frame, Hypothesis
from linda.engines.int8_engine import Int8Engine
from linda.engines.torch_engine import TorchEngine
from linda.errors import LindaError
from linda.model.batching import batches, by_length

VOCABULARY, WIDTH, LONGEST = 60, 16, 12


def marian(ending: float) -> MarianMTModel:
    config = MarianConfig(
        **_bart_like(), decoder_vocab_size=VOCABULARY, eos_token_id=0, pad_token_id=59, decoder_start_token_id=59
    )
    model = MarianMTModel(config)
    model.final_logits_bias[0, 0] = ending
    return model


def bart(ending: float) -> BartForConditionalGeneration:
    model = BartForConditionalGeneration(BartConfig(**_bart_like()))
    model.final_logits_bias[0, 2] = ending
    return model


def mbart(ending: float) -> MBartForConditionalGeneration:
    """A family that normalizes before each layer, and forces the first token."""
    model = MBartForConditionalGeneration(MBartConfig(**_bart_like(), decoder_start_token_id=2))
    model.generation_config.forced_bos_token_id = 31
    model.final_logits_bias[0, 2] = ending
    return model


def pegasus(ending: float) -> PegasusForConditionalGeneration:
    """A family that normalizes before each layer, with positions that are computed."""
    model = PegasusForConditionalGeneration(PegasusConfig(**_bart_like(), scale_embedding=True))
    model.final_logits_bias[0, 1] = ending
    return model


def t5(ending: float) -> T5ForConditionalGeneration:
    """A family without positions: its self-attention adds a bias by distance."""
    model = T5ForConditionalGeneration(
        T5Config(
            vocab_size=VOCABULARY,
            d_model=WIDTH,
            d_kv=8,
            d_ff=32,
            num_layers=2,
            num_heads=2,
            decoder_start_token_id=0,
            initializer_factor=2.0,
        )
    )
    head = torch.nn.Linear(WIDTH, VOCABULARY)
    head.weight = model.lm_head.weight
    head.bias.data.zero_()[1] = ending
    model.lm_head = head
    return model


def _bart_like() -> dict:
    return {
        "vocab_size": VOCABULARY,
        "d_model": WIDTH,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
        "max_position_embeddings": 64,
        "init_std": 0.7,  # far from uniform: texts differ from row to row
    }


FAMILIES = [marian, bart, mbart, t5]


def build(family, ending: float = 8.0, seed: int = 0) -> PreTrainedModel:
    """`ending` sets how early the end marker becomes likely."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return family(ending).eval()


def rows(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """States (B, L̃, d) and mask (B, L̃) of several lengths; the padding contains noise that must have no effect."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, LONGEST, (count,), generator=generator)
    lengths[0] = LONGEST
    states = torch.randn(count, LONGEST, WIDTH, generator=generator)
    return states, (torch.arange(LONGEST) < lengths[:, None]).long()


def engine(model: PreTrainedModel):
    return TorchEngine(model)


def reference(model: PreTrainedModel, states: torch.Tensor, mask: torch.Tensor, decoding: Decoding) -> list[list[int]]:
    """The n texts of one row by generate, end marker included."""
    length = int(mask.sum())
    output = model.generate(
        encoder_outputs=BaseModelOutput(last_hidden_state=states[None, :length]),
        attention_mask=mask[None, :length],
        **decoding.generate_kwargs(model, length),
    )
    end = Frame.of(model).ends[0]
    return [ids[: ids.index(end) + 1] for ids in output[:, 1:].tolist()]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("ending", [5.0, 10.0])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"beams": 1},
        {"beams": 3, "n": 3, "length_penalty": 0.6},
        {"n": 2, "length_penalty": 2.0, "no_repeat_ngram": 2},
        {"length_penalty": -1.0, "max_ratio": 1.0, "max_extra": 2},
        {"withheld": tuple(range(20, VOCABULARY, 2))},
    ],
    ids=str,
)
def test_texts_are_those_of_generate(family, ending: float, settings: dict) -> None:
    model, decoding = build(family, ending), Decoding(**settings)
    states, mask = rows(4)
    texts = engine(model).decode(states, mask, decoding, seeds=[0] * 4)
    for row, hypotheses in enumerate(texts):
        assert [text.ids for text in hypotheses] == reference(model, states[row], mask[row], decoding)


@pytest.mark.parametrize("family", FAMILIES)
def test_texts_end_early_and_late(family) -> None:
    """The comparison above is meaningful only if some texts end by themselves and others at their limits."""
    decoding = Decoding()
    states, mask = rows(12)
    limits = [decoding.limit(length, None) for length in mask.sum(1).tolist()]
    lengths = []
    for ending in (5.0, 10.0):
        texts = engine(build(family, ending)).decode(states, mask, decoding, [0] * 12)
        lengths += [(len(text.ids), limit) for [text], limit in zip(texts, limits, strict=True)]
    assert any(length < limit for length, limit in lengths)
    assert any(length == limit for length, limit in lengths)
    assert all(length <= limit for length, limit in lengths)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_score_is_the_sum_of_log_probabilities_over_length(family) -> None:
    model = build(family, ending=10.0)
    frame = Frame.of(model)
    states, mask = rows(6)
    for settings in ({}, {"beams": 1}, {"sample": True, "temperature": 2.0, "top_k": 9}):
        decoding = Decoding(length_penalty=0.7, **settings)
        for row, [text] in enumerate(engine(model).decode(states, mask, decoding, list(range(6)))):
            if len(text.ids) == decoding.limit(int(mask[row].sum()), frame.window):
                continue  # the end marker was forced, at no cost
            with torch.no_grad():
                logits = model(
                    encoder_outputs=(states[row : row + 1],),
                    attention_mask=mask[row : row + 1],
                    decoder_input_ids=torch.tensor([[frame.start, *text.ids[:-1]]]),
                ).logits[0]
            logits[:, frame.banned] = -torch.inf
            costs = logits.log_softmax(-1)[range(len(text.ids)), text.ids]
            expected = costs[0 if frame.forced_first is None else 1 :].sum().item() / len(text.ids) ** 0.7
            assert text.score == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("settings", [{}, {"beams": 1}, {"sample": True, "n": 2, "top_p": 0.9}], ids=str)
def test_a_row_does_not_depend_on_the_rest_of_its_batch(family, settings: dict) -> None:
    assert_rows_are_independent(engine(build(family)), Decoding(**settings))


def assert_rows_are_independent(decoder: Engine, decoding: Decoding) -> None:
    """A row gives the same texts alone or in a batch, in any order."""
    states, mask = rows(9)
    seeds = list(range(100, 109))
    together = ids_of(decoder.decode(states, mask, decoding, seeds))
    for row in range(9):
        length = int(mask[row].sum())
        alone = decoder.decode(states[row : row + 1, :length], mask[row : row + 1, :length], decoding, [seeds[row]])
        assert ids_of(alone) == [together[row]]
    turned = decoder.decode(states.flip(0), mask.flip(0), decoding, seeds[::-1])
    assert ids_of(turned) == together[::-1]


def ids_of(texts: list[list[Hypothesis]]) -> list[list[list[int]]]:
    return [[text.ids for text in row] for row in texts]


def check_samples_follow_the_seed(decoder: Engine) -> None:
    """For any engine: a seed always draws the same texts, whatever n; another seed draws others."""
    states, mask = rows(3)
    one, three = (decoder.decode(states, mask, Decoding(sample=True, n=n), [1, 2, 3]) for n in (1, 3))
    assert ids_of(one) == [row[:1] for row in ids_of(three)]
    assert len({tuple(text) for text in ids_of(three)[0]}) == 3
    assert ids_of(one) == ids_of(decoder.decode(states, mask, Decoding(sample=True), [1, 2, 3]))
    assert ids_of(one) != ids_of(decoder.decode(states, mask, Decoding(sample=True), [4, 5, 6]))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_prior_weighs_the_states(family) -> None:
    check_prior(engine(build(family)))


def check_prior(decoder: Engine) -> None:
    """A constant changes nothing, −∞ hides a state, log 2 counts it twice."""
    states, mask = rows(6)
    for decoding in (Decoding(), Decoding(sample=True, n=2)):
        plain = decoder.decode(states, mask, decoding, list(range(6)))
        constant = decoder.decode(states, mask, decoding, list(range(6)), prior=torch.full(mask.shape, -3.0))
        assert ids_of(constant) == ids_of(plain)

    lengths = Decoding(max_ratio=0.001, max_extra=11)  # a limit that does not depend on the number of states
    half = mask * (torch.arange(LONGEST) < 3)
    hidden = decoder.decode(states, mask, lengths, [0] * 6, prior=attention_bias(half))
    assert ids_of(hidden) == ids_of(decoder.decode(states, half, lengths, [0] * 6))
    assert ids_of(hidden) != ids_of(decoder.decode(states, mask, lengths, [0] * 6))

    twice = torch.cat([states, states[:, :1]], dim=1), torch.cat([mask, mask[:, :1]], dim=1)
    double = torch.zeros(mask.shape)
    double[:, 0] = math.log(2)
    weighed = decoder.decode(states, mask, lengths, [0] * 6, prior=double)
    repeated = decoder.decode(*twice, lengths, [0] * 6)
    for a, b in zip(weighed, repeated, strict=True):
        assert a[0].score == pytest.approx(b[0].score, abs=0.02)


@pytest.mark.parametrize("vocabulary", [60, 1024, 2000])
def test_the_best_tokens_of_a_large_vocabulary_are_those_of_a_plain_sort(vocabulary: int) -> None:
    from linda.engines.search import _best_continuations

    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 4, vocabulary, generator=generator)
    logits[0, 0, -3:] += 10.0  # the last, short block
    scores = torch.randn(3, 4, generator=generator)
    best, parents, tokens = _best_continuations(logits, scores, 8)
    expected = (logits.log_softmax(-1) + scores[:, :, None]).flatten(1).topk(8)
    assert torch.allclose(best, expected.values, atol=1e-5)
    assert (parents * vocabulary + tokens).equal(expected.indices)


def test_padding_is_never_written_and_costs_no_probability() -> None:
    model = build(bart)
    before = engine(model).decode(*rows(4), Decoding(), [0] * 4)
    model.final_logits_bias[0, model.config.pad_token_id] = 50.0
    after = engine(model).decode(*rows(4), Decoding(), [0] * 4)
    assert ids_of(after) == ids_of(before)
    assert after[0][0].score == pytest.approx(before[0][0].score, rel=1e-5)


def test_every_end_marker_ends_a_text() -> None:
    model = build(bart, ending=0.0)
    model.generation_config.eos_token_id = [2, *range(10, 20)]
    decoding = Decoding()
    states, mask = rows(6)
    texts = ids_of(engine(model).decode(states, mask, decoding, [0] * 6))
    for row, [text] in enumerate(texts):
        [expected] = model.generate(
            encoder_outputs=BaseModelOutput(last_hidden_state=states[row : row + 1]),
            attention_mask=mask[row : row + 1],
            **decoding.generate_kwargs(model, int(mask[row].sum())),
        )[:, 1:].tolist()
        assert text == expected
    assert {text[-1] for [text] in texts} - {2}


def test_rows_leave_the_batch_when_they_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step computes only the open rows, and the first step a single path per row."""
    sizes: list[tuple[int, int]] = []
    step = paths.TorchPaths.step

    def counted(self, tokens: torch.Tensor) -> torch.Tensor:
        sizes.append(tuple(tokens.shape))
        return step(self, tokens)

    monkeypatch.setattr(paths.TorchPaths, "step", counted)
    states, mask = rows(12)
    texts = engine(build(marian, ending=10.0)).decode(states, mask, Decoding(), [0] * 12)
    assert sizes[0] == (12, 1)
    assert {beams for _, beams in sizes[1:]} == {4}
    counts = [count for count, _ in sizes]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] < 12
    assert len(sizes) < max(Decoding().limit(length, None) for length in mask.sum(1).tolist())
    assert min(len(text.ids) for [text] in texts) < len(sizes)


def test_the_engine_shares_the_weights_and_leaves_the_model_alone() -> None:
    model = build(marian).train()
    attention = model.config._attn_implementation
    decoder = engine(model)
    before = ids_of(decoder.decode(*rows(4), Decoding(), [0] * 4))
    assert model.training
    assert model.config._attn_implementation == attention
    assert ids_of(decoder.decode(*rows(4), Decoding(), [0] * 4)) == before  # no dropout
    with torch.no_grad():
        model.final_logits_bias[0, 11] += 100.0
    [[text], *_] = ids_of(decoder.decode(*rows(4), Decoding(), [0] * 4))
    assert set(text[:-1]) == {11}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(family, dtype: torch.dtype) -> None:
    model = build(family).to(dtype)
    states, mask = rows(4)
    for decoding in (Decoding(), Decoding(beams=1), Decoding(sample=True, top_p=0.9)):
        texts = engine(model).decode(states.to(dtype), mask, decoding, [0] * 4)
        assert all(text.ids and torch.isfinite(torch.tensor(text.score)) for [text] in texts)


def test_a_batch_too_large_for_the_device_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    states, mask = rows(7)
    decoder = engine(build(marian))
    expected = ids_of(decoder.decode(states, mask, Decoding(), list(range(7))))
    step = paths.TorchPaths.step

    def small(self, tokens: torch.Tensor) -> torch.Tensor:
        if tokens.shape[0] > 2:
            raise torch.OutOfMemoryError
        return step(self, tokens)

    monkeypatch.setattr(paths.TorchPaths, "step", small)
    before = decoder.batch_tokens
    assert ids_of(decoder.decode(states, mask, Decoding(), list(range(7)))) == expected
    assert decoder.batch_tokens <= before // 2  # later batches are smaller


def test_an_unknown_engine_is_named_with_the_known_ones() -> None:
    with pytest.raises(LindaError, match="unknown engine 'warp'; choose one of auto, int8, torch"):
        choose("warp", {}, torch.device("cpu"))


class TestChoice:
    """Which engine "auto" selects, and the error if a requested engine cannot run."""

    def test_auto_is_the_fast_engine_where_it_runs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Int8Engine, "why_not", staticmethod(lambda base, device: None))
        assert choose("auto", {}, torch.device("cpu")) == choose("int8", {}, torch.device("cpu")) == "int8"
        assert choose("torch", {}, torch.device("cpu")) == "torch"

    def test_auto_is_torch_where_it_does_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Int8Engine, "why_not", staticmethod(lambda base, device: "it lacks a feature"))
        assert choose("auto", {}, torch.device("cpu")) == "torch"
        with pytest.raises(LindaError, match=r"the int8 engine cannot run here: it lacks a feature; .*--engine torch"):
            choose("int8", {}, torch.device("cpu"))


@pytest.mark.parametrize("family", FAMILIES)
def test_states_are_those_of_the_models_own_encoder(family) -> None:
    model = build(family).train()  # engines do not use dropout, even if the model is in training mode
    ids = torch.randint(3, VOCABULARY, (3, 7), generator=torch.Generator().manual_seed(0))
    mask = (torch.arange(7) < torch.tensor([[7], [3], [1]])).long()
    states = engine(model).encode(ids, mask)
    assert model.training
    with torch.no_grad():
        expected = model.eval().get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
    torch.testing.assert_close(states[mask.bool()], expected[mask.bool()])


def test_a_model_that_attends_in_its_own_way_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(marian)
    monkeypatch.setattr(type(model), "_can_set_attn_implementation", classmethod(lambda cls: False))
    with pytest.raises(LindaError, match="MarianMTModel has its own attention implementation"):
        engine(model)


def test_batches_hold_rows_of_like_length_within_the_budget() -> None:
    lengths = [5, 30, 7, 31, 6, 90, 5]
    groups = batches(lengths, batch_tokens=64)
    assert sorted(row for group in groups for row in group) == list(range(7))
    assert groups == [[5], [3, 1], [2, 4, 0, 6]]  # 90 alone is over the budget; 31 + 30; the short ones
    assert batches(lengths, batch_tokens=64, paths=4)[1:3] == [[3], [1]]
    assert batches([], 64) == []
    with pytest.raises(LindaError, match="batch_tokens is 0"):
        batches([1], 0)


def test_groups_by_length_keep_the_order_of_equal_rows() -> None:
    words = ["of", "a", "the", "b", "at"]
    assert by_length(words, len, 2) == [["a", "b"], ["of", "at"], ["the"]]
    assert by_length([], len, 2) == []
