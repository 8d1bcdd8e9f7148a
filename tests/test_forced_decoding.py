"""`Engine.score` compared to the logits of `transformers`, and to the scores of texts that the same engine writes."""

from collections.abc import Sequence

import pytest
import torch
from transformers import PreTrainedModel

from linda.engines import Engine, short_list
from linda.engines.decoding import Decoding, Frame
from linda.engines.forced import Branch
from linda.engines.torch_engine import TorchEngine
from test_engines import FAMILIES, LONGEST, VOCABULARY, build, marian, mbart, pegasus, rows, t5
from test_int8_engine import gentle, int8

ALL = [*FAMILIES, pegasus]
KNOWN = [family for family in ALL if family is not t5]  # families that the 8-bit engine supports
Sequences = list[list[list[int]]]


def sequences_of(model: PreTrainedModel, counts: Sequence[int], seed: int = 0) -> Sequences:
    """Random tokens, `counts[i]` sequences of several lengths in row i; one of them is empty."""
    generator = torch.Generator().manual_seed(seed)
    markers = {*Frame.of(model).ends, *Frame.of(model).banned}
    tokens = torch.tensor([token for token in range(VOCABULARY) if token not in markers])

    def draw(length: int) -> list[int]:
        return tokens[torch.randint(len(tokens), (length,), generator=generator)].tolist()

    lengths = [torch.randint(0, 20, (count,), generator=generator).tolist() for count in counts]
    lengths[-1][-1] = 0
    return [[draw(length) for length in row] for row in lengths]


def wanted_of(model: PreTrainedModel, sequences: Sequences) -> list[list[int]]:
    """The tokens of each row, and the end marker."""
    return [sorted({Frame.of(model).ends[0], *(token for s in row for token in s)}) for row in sequences]


def teacher_forced(model: PreTrainedModel, states, mask, sequence: list[int], wanted: list[int]) -> torch.Tensor:
    """One row (S, d) and one sequence by `transformers`: (T + 1, wanted)."""
    frame = Frame.of(model)
    prompt = [frame.start] if frame.forced_first is None else [frame.start, frame.forced_first]
    with torch.no_grad():
        logits = model(
            encoder_outputs=(states[None],),
            attention_mask=mask[None],
            decoder_input_ids=torch.tensor([[*prompt, *sequence]]),
        ).logits[0]
    logits[:, frame.banned] = -torch.inf
    return logits.log_softmax(dim=-1)[len(prompt) - 1 :, wanted]


@pytest.mark.parametrize("family", ALL)
def test_the_torch_engine_reads_what_transformers_reads(family) -> None:
    model = build(family)
    states, mask = rows(4)
    sequences = sequences_of(model, [2, 1, 4, 3])
    wanted = wanted_of(model, sequences)
    for row, found in enumerate(TorchEngine(model).score(states, mask, sequences, wanted).log_p):
        assert len(found) == len(sequences[row])
        for sequence, given in zip(sequences[row], found, strict=True):
            expected = teacher_forced(model, states[row], mask[row], sequence, wanted[row])
            torch.testing.assert_close(given, expected, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("family", KNOWN)
def test_the_8_bit_engine_reads_nearly_the_same(family) -> None:
    model = gentle(family, ending=5.0)
    states, mask = rows(8)
    sequences = sequences_of(model, [2, 1, 4, 3, 2, 2, 6, 1])
    wanted = wanted_of(model, sequences)
    exact, given = (engine.score(states, mask, sequences, wanted).log_p for engine in (TorchEngine(model), int8(model)))
    differences = [(x - y).abs().mean() for a, b in zip(exact, given, strict=True) for x, y in zip(a, b, strict=True)]
    assert sum(differences) / len(differences) < 0.05


@pytest.mark.parametrize("family", ALL)
@pytest.mark.parametrize("make", [TorchEngine, int8])
def test_a_row_does_not_depend_on_the_rest_of_its_batch(family, make) -> None:
    """Identical to the last bit, alone or together with sequences of any number and length."""
    if make is int8 and family not in KNOWN:
        pytest.skip("a family that the 8-bit engine does not know")
    model = build(family)
    engine: Engine = make(model)
    states, mask = rows(9)
    prior = torch.randn(mask.shape, generator=torch.Generator().manual_seed(5))
    sequences = sequences_of(model, [2, 6, 1, 3, 2, 2, 5, 1, 2])
    wanted = wanted_of(model, sequences)
    together = engine.score(states, mask, sequences, wanted, prior).log_p
    for row, found in enumerate(together):
        one, length = slice(row, row + 1), int(mask[row].sum())
        alone = engine.score(
            states[one, :length], mask[one, :length], sequences[one], wanted[one], prior[one, :length]
        ).log_p
        assert all(x.equal(y) for x, y in zip(found, alone[0], strict=True))
        if make is int8:  # torch sums a longer batch of sequences in a different order
            for sequence, expected in zip(sequences[row], found, strict=True):
                [[single]] = engine.score(states[one], mask[one], [[sequence]], wanted[one], prior[one]).log_p
                assert single.equal(expected)


@pytest.mark.parametrize("make", [TorchEngine, int8])
@pytest.mark.parametrize("family", KNOWN)
@pytest.mark.parametrize("settings", [{}, {"beams": 1}, {"sample": True, "temperature": 2.0}], ids=str)
def test_what_was_written_is_read_as_likely_as_it_was(family, make, settings: dict) -> None:
    """The sum of log-probabilities along a text is its score times its length, with a prior too."""
    model = build(family, ending=10.0)
    engine: Engine = make(model)
    frame = Frame.of(model)
    states, mask = rows(8)
    prior = torch.randn(mask.shape, generator=torch.Generator().manual_seed(5))
    decoding = Decoding(**settings)
    checked = 0
    for row, [text] in enumerate(engine.decode(states, mask, decoding, list(range(8)), prior=prior)):
        if len(text.ids) == decoding.limit(int(mask[row].sum()), frame.window):
            continue  # the end marker was forced, at no cost
        forced = 0 if frame.forced_first is None else 1
        written = text.ids[forced:]
        one = slice(row, row + 1)
        [[read]] = engine.score(states[one], mask[one], [[written[:-1]]], [list(range(VOCABULARY))], prior[one]).log_p
        total = read[range(len(written)), written].sum().item()
        # In 8 bits, writing and scoring use different sums, and rounding amplifies the last bit.
        assert total == pytest.approx(text.score * len(text.ids), abs=1e-3 if make is TorchEngine else 0.02)
        checked += 1
    assert checked > 2


@pytest.mark.parametrize("family", [marian, mbart])
def test_rare_tokens_of_other_rows_do_not_matter(family, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_list, "COMMON", 10)
    model = build(family)
    engine = int8(model)
    states, mask = rows(5)
    sequences = sequences_of(model, [2, 3, 1, 2, 2])
    wanted = wanted_of(model, sequences)
    together = engine.score(states, mask, sequences, wanted).log_p
    for row in range(5):
        one = slice(row, row + 1)
        [alone] = engine.score(states[one], mask[one], sequences[one], wanted[one]).log_p
        for x, y in zip(alone, together[row], strict=True):
            torch.testing.assert_close(x, y, atol=1e-5, rtol=1e-6)
    # The whole vocabulary is more than the common tokens and the row's own: each is less likely there.
    whole = engine.score(states, mask, sequences, [list(range(VOCABULARY))] * 5).log_p
    for row, tokens in enumerate(wanted):
        for x, y in zip(together[row], whole[row], strict=True):
            assert (x >= y[:, tokens] - 1e-5).all()


def test_as_many_positions_as_the_decoder_has_can_be_read() -> None:
    """Their number need not fill a vector register."""
    model = build(marian)
    for name in ("encoder", "decoder"):
        getattr(model.model, name).embed_positions.weight.data = getattr(model.model, name).embed_positions.weight.data[
            :27
        ]
    model.config.max_position_embeddings = 27
    states, mask = rows(1)
    sequences = [[[7] * 26]]
    exact, given = (engine.score(states, mask, sequences, [[7]]).log_p for engine in (TorchEngine(model), int8(model)))
    assert exact[0][0].shape == given[0][0].shape == (27, 1)
    assert LONGEST < 27


@pytest.mark.parametrize("make", [TorchEngine, int8])
def test_padding_is_never_likely(make) -> None:
    model = build(mbart)
    pad = Frame.of(model).pad
    [[read]] = make(model).score(*(x[:1] for x in rows(1)), [[[7, 8]]], [[pad, 7]]).log_p
    assert (read[:, 0] == -torch.inf).all()
    assert read[:, 1].isfinite().all()


@pytest.mark.parametrize(
    ("make", "family"),
    [(TorchEngine, family) for family in ALL] + [(int8, family) for family in KNOWN],
)
def test_a_branch_is_read_as_if_its_prefix_had_been_read_anew(make, family):
    model = build(family)
    engine = make(model)
    states, mask = rows(3)
    sequences, wanted = [[[5, 6, 7, 8], [9, 10]]] * 3, [list(range(3, 20))] * 3
    reading = engine.score(states, mask, sequences, wanted)
    branches = [[Branch(0, 2, [11, 12, 13]), Branch(1, 1, [14])], [Branch(1, 2, [5])], [Branch(0, 0, [7])]]
    for row, found in enumerate(reading.score_branches(branches)):
        one = slice(row, row + 1)
        for branch, log_p in zip(branches[row], found, strict=True):
            whole = [*sequences[row][branch.sequence][: branch.length], *branch.tokens]
            [[anew]] = engine.score(states[one], mask[one], [[whole]], wanted[one]).log_p
            torch.testing.assert_close(log_p, anew[branch.length + 1 :], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("family", KNOWN)
def test_one_state_is_read_like_one_of_several_that_are_masked(family) -> None:
    """Softmax over one state is 1, so the engine skips it: to the last bit the same."""
    model = build(family)
    engine = int8(model)
    states, _ = rows(4)
    sequences = sequences_of(model, [2, 1, 4, 3])
    wanted = wanted_of(model, sequences)
    branches = [[Branch(0, len(row[0]) // 2, row[0][:3])] for row in sequences]
    one, several = (
        engine.score(states[:, :count], torch.tensor([[1] + [0] * (count - 1)] * 4), sequences, wanted)
        for count in (1, 5)
    )
    for first, second in ((one.log_p, several.log_p), (one.score_branches(branches), several.score_branches(branches))):
        assert all(x.equal(y) for a, b in zip(first, second, strict=True) for x, y in zip(a, b, strict=True))


def test_branches_without_tokens_have_no_scores() -> None:
    model = build(marian)
    states, mask = rows(1)
    reading = int8(model).score(states, mask, [[[5, 6, 7]]], [[5, 6]])
    [[found]] = reading.score_branches([[Branch(0, 1, [])]])
    assert found.shape == (0, 2)
