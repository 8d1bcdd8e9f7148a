"""Mixing by attention: what the decoder attends to, and what the prior does to it, in every family."""

import json
import math
import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from linda.config import LindaConfig
from linda.errors import LindaError
from linda.model import LindaModel
from linda.model.attention_mixing import AttentionMixing
from linda.model.loss import CHOICE_TEMPERATURE, CHOICE_WEIGHT, IGNORED, as_targets, choice_loss
from test_engines import FAMILIES, VOCABULARY, WIDTH, build, pegasus

ALL = [*FAMILIES, pegasus]
LENGTHS_A, LENGTHS_B = torch.tensor([5, 2, 7]), torch.tensor([3, 6, 1])


def texts(lengths: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """States (B, L, d) and mask; the padding contains noise that must have no effect."""
    longest = int(lengths.max())
    states = torch.randn(len(lengths), longest, WIDTH, generator=torch.Generator().manual_seed(seed))
    return states, (torch.arange(longest) < lengths[:, None]).long()


def trained(seed: int = 3) -> AttentionMixing:
    """With weights that are not zero."""
    mixing = AttentionMixing(WIDTH)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in mixing.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
    return mixing


def around(seq2seq: PreTrainedModel) -> LindaModel:
    """A LINDA model that needs no tokenizer, in evaluation."""
    base = seq2seq.config.to_dict()
    return LindaModel(LindaConfig(base=base, mixing="attention"), seq2seq, None).eval()


def targets(rows: int) -> Tensor:
    ids = torch.randint(4, VOCABULARY - 2, (rows, 6), generator=torch.Generator().manual_seed(9))
    ids[0, 4:] = IGNORED
    return ids


def test_a_mixture_is_the_control_state_then_a_then_b() -> None:
    mixing = trained()
    (states_a, mask_a), (states_b, mask_b) = texts(LENGTHS_A, 0), texts(LENGTHS_B, 1)
    alpha = torch.tensor([0.25, 0.5, 1.0], dtype=torch.float64)
    mixture = mixing.mix(states_a, mask_a, states_b, mask_b, alpha)
    assert mixture.states.shape == (3, 9, WIDTH)
    assert mixture.mask.shape == mixture.prior.shape == (3, 9)
    assert mixture.mask.sum(1).tolist() == [9, 9, 9]
    assert mixture.lengths.tolist() == [4, 4, 7]  # ⌈0.25·5 + 0.75·3⌉, ⌈0.5·2 + 0.5·6⌉, 7
    for row, (length_a, length_b, ratio) in enumerate(zip(LENGTHS_A, LENGTHS_B, alpha.tolist(), strict=True)):
        features = [ratio, ratio**2, 1, mixture.lengths[row] / 32, length_a / 32, length_b / 32]
        control = sum(feature * weight for feature, weight in zip(features, mixing.control, strict=True))
        expected = torch.cat(
            [
                control[None],
                states_a[row, :length_a] + mixing.sources[0],
                states_b[row, :length_b] + mixing.sources[1],
            ]
        )
        torch.testing.assert_close(mixture.states[row], expected)
        prior = [1.0] + [ratio] * length_a + [1 - ratio] * length_b
        assert mixture.prior[row].exp().tolist() == pytest.approx(prior)


def test_a_pair_is_mixed_alike_beside_any_other() -> None:
    mixing = trained()
    (states_a, mask_a), (states_b, mask_b) = texts(torch.tensor([5, 2, 12]), 0), texts(LENGTHS_B, 1)
    alpha = torch.tensor([0.25, 0.5, 0.9])
    together = mixing.mix(states_a, mask_a, states_b, mask_b, alpha)
    assert together.states.shape[1] == 14
    alone = mixing.mix(states_a[:1, :5], mask_a[:1, :5], states_b[:1, :3], mask_b[:1, :3], alpha[:1])
    assert together.states[0, :9].equal(alone.states[0])
    assert together.prior[0, :9].equal(alone.prior[0])
    assert together.mask[0].tolist() == [1] * 9 + [0] * 5


@pytest.mark.parametrize("family", ALL)
@pytest.mark.parametrize("end", [1.0, 0.0])
def test_at_an_end_a_new_model_reads_one_text_alone(family, end: float) -> None:
    model = around(build(family))
    a, b = texts(LENGTHS_A, 0), texts(LENGTHS_B, 1)
    (states, mask), wanted = (a if end else b), targets(3)
    zero = torch.zeros(3, 1, WIDTH)
    with torch.no_grad():
        mixture = model.attention_mixing.mix(*a, *b, torch.full((3,), end))
        given = model.log_likelihood(mixture.states, mixture.mask, wanted, prior=mixture.prior)
        alone = torch.cat([zero, states], dim=1), torch.cat([torch.ones(3, 1).long(), mask], dim=1)
        expected = model.log_likelihood(*alone, wanted)
    torch.testing.assert_close(given, expected, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("family", ALL)
def test_a_prior_counts_states_more_than_once(family) -> None:
    """α = ¾ weighs c, a and b as 4 : 3 : 1, which is to attend to each as often as that."""
    model = around(build(family))
    model.attention_mixing = trained()
    a, b, wanted = texts(LENGTHS_A, 0), texts(LENGTHS_B, 1), targets(3)
    with torch.no_grad():
        mixture = model.attention_mixing.mix(*a, *b, torch.full((3,), 0.75))
        given = model.log_likelihood(mixture.states, mixture.mask, wanted, prior=mixture.prior)
        for row in range(3):
            times = (mixture.prior[row].exp() * 4).round().long() * mixture.mask[row]
            repeated = mixture.states[row].repeat_interleave(times, dim=0)[None]
            mask = torch.ones(repeated.shape[:2]).long()
            expected = model.log_likelihood(repeated, mask, wanted[row : row + 1])
            assert given[row].item() == pytest.approx(expected.item(), abs=1e-3)


@pytest.mark.parametrize("family", ALL)
def test_the_prior_is_added_to_the_scores_of_every_layer(family) -> None:
    """Cross-attention against softmax(q·k + log π), one number at a time."""
    model = around(build(family))
    mixture = trained().mix(*texts(LENGTHS_A, 0), *texts(LENGTHS_B, 1), torch.tensor([0.3, 0.6, 0.9]))
    names = ("encoder_attn", "EncDecAttention")
    layers = [module for name, module in model.seq2seq.named_modules() if name.endswith(names)]
    assert len(layers) == 2
    seen: list[tuple[Tensor, Tensor]] = []

    def remember(module, arguments, settings, output) -> None:
        states = arguments[0] if arguments else settings["hidden_states"]
        seen.append((states.detach(), output[0].detach()))

    hooks = [layer.register_forward_hook(remember, with_kwargs=True) for layer in layers]
    with torch.no_grad():
        model.log_likelihood(mixture.states, mixture.mask, targets(3), prior=mixture.prior)
        for layer, (states, given) in zip(layers, seen, strict=True):
            torch.testing.assert_close(given, plain_attention(layer, states, mixture), atol=1e-4, rtol=1e-4)
    for hook in hooks:
        hook.remove()


def plain_attention(layer, states: Tensor, mixture) -> Tensor:
    project = [getattr(layer, name, None) or getattr(layer, name[0]) for name in ("q_proj", "k_proj", "v_proj")]
    write = getattr(layer, "out_proj", None) or layer.o
    heads, scale = (2, 8**-0.5) if hasattr(layer, "q_proj") else (2, 1.0)  # T5 does not scale
    queries, keys, values = (p(x) for p, x in zip(project, (states, mixture.states, mixture.states), strict=True))
    mixed = torch.zeros_like(queries)
    size = queries.shape[2] // heads
    for row in range(queries.shape[0]):
        real = [place for place in range(keys.shape[1]) if mixture.mask[row, place]]
        for time in range(queries.shape[1]):
            for head in range(heads):
                part = slice(head * size, (head + 1) * size)
                query = queries[row, time, part] * scale
                weights = [
                    math.exp(float(query @ keys[row, place, part]) + float(mixture.prior[row, place])) for place in real
                ]
                for weight, place in zip(weights, real, strict=True):
                    mixed[row, time, part] += weight / sum(weights) * values[row, place, part]
    return write(mixed)


def test_the_loss_of_middles_is_their_mean_log_likelihood(tiny_base_folder: Path) -> None:
    """Several targets of a pair share its states, with different ratios."""
    model = LindaModel.from_seq2seq(tiny_base_folder, norm_penalty=0.0).eval()
    model.mix_by_attention()
    model.attention_mixing = trained()
    a, b = model.tokenize(["the cat sat", "a dog"]), model.tokenize(["who is the old man", "the red city"])
    wanted = model.tokenize(["the cat is the old man", "who sat", "a red city"])
    labels = wanted["input_ids"].masked_fill(wanted["attention_mask"] == 0, IGNORED)
    pair, alpha = torch.tensor([0, 0, 1]), torch.tensor([0.3, 1.0, 0.5])
    with torch.no_grad():
        output = model.middle_loss(
            a["input_ids"],
            a["attention_mask"],
            b["input_ids"],
            b["attention_mask"],
            pair,
            labels,
            alpha,
            row=torch.arange(3),
            weight=torch.ones(3),
        )
        total = 0.0
        for row in range(3):
            one = slice(pair[row], pair[row] + 1)
            mixture = model.attention_mixing.mix(
                model.encode(a["input_ids"], a["attention_mask"])[one],
                a["attention_mask"][one],
                model.encode(b["input_ids"], b["attention_mask"])[one],
                b["attention_mask"][one],
                alpha[row : row + 1],
            )
            total -= model.log_likelihood(
                mixture.states, mixture.mask, labels[row : row + 1], prior=mixture.prior
            ).item()
    assert output.loss.item() == pytest.approx(total / 3, rel=1e-5)
    assert output.loss_per_token.item() == pytest.approx(total / (labels != IGNORED).sum().item(), rel=1e-5)


def test_the_choice_among_candidates_is_the_formula_row_by_row() -> None:
    log_p = torch.tensor([-3.0, -5.0, -4.0, -20.0, -6.0])
    row, weight = torch.tensor([0, 0, 0, 1, 2]), torch.tensor([0.2, 0.7, 0.1, 1.0, 1.0])
    targets = torch.tensor([[1, 2, IGNORED], [1, 2, 3], [1, IGNORED, IGNORED], [4, 5, 6], [7, 8, IGNORED]])
    scores = [-3 / 2 / CHOICE_TEMPERATURE, -5 / 3 / CHOICE_TEMPERATURE, -4 / CHOICE_TEMPERATURE]
    total = math.log(sum(math.exp(score) for score in scores))
    expected = -sum(w * (score - total) for w, score in zip((0.2, 0.7, 0.1), scores, strict=True))
    # A row with one candidate has nothing to choose.
    assert choice_loss(log_p, targets, row, weight).item() == pytest.approx(expected / 3, rel=1e-5)


def test_candidates_are_chosen_without_a_source_text(tiny_base_folder: Path) -> None:
    """The best candidate is learnt from both texts; the choice is by the decoder as a language model."""
    model = LindaModel.from_seq2seq(tiny_base_folder, norm_penalty=0.0).eval()
    model.mix_by_attention()
    model.attention_mixing = trained()
    a, b = model.tokenize(["the cat sat", "a dog"]), model.tokenize(["who is the old man", "the red city"])
    wanted = model.tokenize(["the cat is the old man", "who sat", "a red city", "the red dog"])
    labels = as_targets(**wanted)
    row, weight = torch.tensor([0, 0, 1, 1]), torch.tensor([0.75, 0.25, 0.5, 0.5])
    pair, alpha = torch.tensor([0, 0, 1, 1]), torch.tensor([0.3, 0.3, 0.5, 0.5])
    inputs = (a["input_ids"], a["attention_mask"], b["input_ids"], b["attention_mask"])
    with torch.no_grad():
        output = model.middle_loss(*inputs, pair, labels, alpha, row, weight)
        best = model.middle_loss(*inputs, pair[::2], labels[::2], alpha[::2], torch.arange(2), torch.ones(2))
        nothing = model.attention_mixing.without_texts(4)
        log_p = model.log_likelihood(nothing.states, nothing.mask, labels)
        alone = model.text_loss(labels)
    assert best.choice is None
    assert output.reconstruction.item() == pytest.approx(best.loss.item(), rel=1e-5)
    assert output.choice.item() == pytest.approx(choice_loss(log_p, labels, row, weight).item(), rel=1e-5)
    assert output.loss.item() == pytest.approx(best.loss.item() + CHOICE_WEIGHT * output.choice.item(), rel=1e-5)
    assert alone.loss.item() == pytest.approx(-log_p.mean().item(), rel=1e-5)
    tokens = (labels != IGNORED).sum().item()
    assert alone.loss_per_token.item() == pytest.approx(-log_p.sum().item() / tokens, rel=1e-5)


def test_every_weight_learns_from_middles(tiny_base_folder: Path) -> None:
    """Ratios at the ends, where a prior is −∞, give no NaN gradients."""
    model = LindaModel.from_seq2seq(tiny_base_folder)
    model.mix_by_attention()
    a, b = model.tokenize(["the cat sat", "a dog"]), model.tokenize(["who is the old man", "the red city"])
    model.middle_loss(
        a["input_ids"],
        a["attention_mask"],
        b["input_ids"],
        b["attention_mask"],
        torch.tensor([0, 0, 1]),
        a["input_ids"][[0, 0, 1]],
        torch.tensor([0.0, 0.4, 1.0]),
        row=torch.tensor([0, 0, 1]),
        weight=torch.tensor([0.7, 0.3, 1.0]),
    ).loss.backward()
    for weight in model.attention_mixing.parameters():
        assert weight.grad.isfinite().all()
        assert weight.grad.norm() > 0


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_what_is_learnt_is_stored_with_the_model(tiny_base_folder: Path, tmp_path: Path, bits: int) -> None:
    model = LindaModel.from_seq2seq(tiny_base_folder)
    model.mix_by_attention()
    model.attention_mixing.load_state_dict(trained().state_dict())
    model.save_pretrained(tmp_path / "model", bits)
    again = LindaModel.from_pretrained(tmp_path / "model")
    assert again.config.mixing == "attention"
    for name, weight in model.attention_mixing.state_dict().items():
        stored = again.attention_mixing.state_dict()[name]
        # At least 16 bits, because the control state affects the decoder at every position.
        torch.testing.assert_close(stored, weight, atol=1e-7, rtol=0 if bits == 32 else 2**-10)


def test_a_model_without_the_weights_that_its_settings_ask_for_is_refused(
    tiny_model_folder: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny_model_folder, tmp_path / "model"))
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | {"mixing": "attention"}))
    with pytest.raises(LindaError, match=r"does not match config.json"):
        LindaModel.from_pretrained(folder)
