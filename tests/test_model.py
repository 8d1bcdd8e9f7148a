"""The equations of the paper, compared to plain loops."""

import math
import shutil
from pathlib import Path

import pytest
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    T5Config,
    T5ForConditionalGeneration,
)

from linda.config import LindaConfig
from linda.engines.decoding import generate
from linda.errors import LindaError
from linda.model import LindaModel
from linda.model.length_converter import LengthConverter, mixed_lengths
from linda.model.loss import IGNORED
from linda.model.sampled_softmax import PieceSample

TEXTS_A = ["the old cat sat on the red river", "who was in the city"]
TEXTS_B = ["a dog ran", "the small man saw a woman and the dog"]
ALPHA = torch.tensor([0.3, 0.6])


def _bart(ids: dict[str, int]) -> PreTrainedModel:
    return BartForConditionalGeneration(
        BartConfig(
            d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
            encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=64, bos_token_id=ids["eos_token_id"],
            forced_eos_token_id=None, decoder_start_token_id=ids["eos_token_id"], init_std=0.5, **ids,
        )
    )  # fmt: skip


def _marian(ids: dict[str, int]) -> PreTrainedModel:
    return MarianMTModel(
        MarianConfig(
            d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
            encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=64,
            decoder_start_token_id=ids["pad_token_id"], init_std=0.5, **ids,
        )
    )  # fmt: skip


def _t5(ids: dict[str, int]) -> PreTrainedModel:
    return T5ForConditionalGeneration(
        T5Config(
            d_model=16, d_kv=8, d_ff=32, num_layers=1, num_decoder_layers=1, num_heads=2,
            decoder_start_token_id=ids["pad_token_id"], initializer_factor=1.0, **ids,
        )
    )  # fmt: skip


@pytest.fixture(params=[_bart, _marian, _t5], ids=["bart", "marian", "t5"])
def model(request: pytest.FixtureRequest, tiny_model: LindaModel) -> LindaModel:
    """A LINDA model of each family, with random weights."""
    tokenizer: PreTrainedTokenizerBase = tiny_model.tokenizer
    ids = {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        seq2seq = request.param(ids)
    return LindaModel(LindaConfig(base=seq2seq.config.to_dict()), seq2seq, tokenizer).eval()


def _inputs(model: LindaModel, a: list[str], b: list[str], alpha: torch.Tensor) -> dict[str, torch.Tensor]:
    first, second = model.tokenize(a), model.tokenize(b)
    return {
        "ids_a": first["input_ids"],
        "mask_a": first["attention_mask"],
        "ids_b": second["input_ids"],
        "mask_b": second["attention_mask"],
        "targets_a": first["input_ids"].masked_fill(first["attention_mask"] == 0, IGNORED),
        "targets_b": second["input_ids"].masked_fill(second["attention_mask"] == 0, IGNORED),
        "alpha": alpha,
    }


class TestMixedLength:
    @pytest.mark.parametrize(
        ("length_a", "length_b", "alpha", "expected"),
        [
            (10, 4, 1.0, 10),
            (10, 4, 0.0, 4),
            (10, 4, 0.5, 7),
            (10, 5, 0.5, 8),  # 7.5 is rounded up
            (10, 0, 0.1 * 3, 3),  # 3.0000000000000004 is 3
            (1, 1, 0.3, 1),
        ],
    )
    def test_rounds_up_without_float_dust(self, length_a: int, length_b: int, alpha: float, expected: int) -> None:
        lengths = mixed_lengths(torch.tensor([length_a]), torch.tensor([length_b]), torch.tensor([alpha]).double())
        assert lengths.tolist() == [expected]

    def test_a_ratio_in_single_precision_adds_no_token(self) -> None:
        alpha = torch.arange(0, 101) / 100  # float32
        lengths = mixed_lengths(torch.full((101,), 400), torch.full((101,), 100), alpha)
        assert lengths.tolist() == [100 + 3 * percent for percent in range(101)]


class TestLengthConverter:
    def test_equals_a_plain_loop_over_the_equation(self) -> None:
        """w_k^j ∝ exp(−(k − (L/L̃)·j)² / 2σ²), 1-based, for two rows of different length."""
        sigma, lengths, targets = 0.7, [5, 3], [4, 7]
        states = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
        converted = LengthConverter(sigma)(states, torch.tensor(lengths), torch.tensor(targets))
        assert converted.shape == (2, 7, 3)
        for row, (length, target) in enumerate(zip(lengths, targets, strict=True)):
            for j in range(1, target + 1):
                weights = [math.exp(-((k - length / target * j) ** 2) / (2 * sigma**2)) for k in range(1, length + 1)]
                expected = sum(w / sum(weights) * states[row, k] for k, w in enumerate(weights))
                torch.testing.assert_close(converted[row, j - 1], expected)
            assert converted[row, target:].abs().sum() == 0

    def test_is_the_identity_at_equal_lengths_and_small_sigma(self) -> None:
        states = torch.randn(1, 6, 4)
        length = torch.tensor([6])
        torch.testing.assert_close(LengthConverter(0.05)(states, length, length), states)

    def test_sigma_stays_positive_whatever_the_weight(self) -> None:
        converter = LengthConverter()
        converter.log_sigma.data.fill_(-9.0)
        assert converter.sigma > 0


def test_a_padded_batch_equals_one_pair_at_a_time(model: LindaModel) -> None:
    together = model(**_inputs(model, TEXTS_A, TEXTS_B, ALPHA))
    for row in range(2):
        alone = model(**_inputs(model, [TEXTS_A[row]], [TEXTS_B[row]], ALPHA[row : row + 1]))
        torch.testing.assert_close(together.log_p_a[row], alone.log_p_a[0], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(together.log_p_b[row], alone.log_p_b[0], rtol=1e-4, atol=1e-4)


def test_at_ratio_one_the_second_text_does_not_matter(model: LindaModel) -> None:
    one = torch.ones(2)
    first = model(**_inputs(model, TEXTS_A, TEXTS_B, one))
    second = model(**_inputs(model, TEXTS_A, ["the river", "red"], one))
    torch.testing.assert_close(first.log_p_a, second.log_p_a)
    _, mask = model.mix_texts(TEXTS_A, TEXTS_B, 1.0)
    assert mask.sum(1).tolist() == model.tokenize(TEXTS_A)["attention_mask"].sum(1).tolist()


def test_the_mixture_is_the_weighted_sum_of_the_converted_states(model: LindaModel) -> None:
    a, b = model.tokenize(TEXTS_A[:1]), model.tokenize(TEXTS_B[:1])
    states_a, states_b = model.encode(**a), model.encode(**b)
    lengths = (a["attention_mask"].sum(1), b["attention_mask"].sum(1))
    masks = a["attention_mask"], b["attention_mask"]
    mixed = model.converter.mix(states_a, masks[0], states_b, masks[1], torch.tensor([0.3])).states
    target = mixed_lengths(*lengths, torch.tensor([0.3]))
    expected = 0.3 * model.converter(states_a, lengths[0], target) + 0.7 * model.converter(states_b, lengths[1], target)
    torch.testing.assert_close(mixed, expected)


def test_the_loss_is_the_explicit_sum_of_token_log_probabilities(model: LindaModel) -> None:
    """Eq. 5, token by token: each step fed with the true tokens before it."""
    output = model(**_inputs(model, TEXTS_A, TEXTS_B, ALPHA))
    expected = torch.zeros(2)
    for row in range(2):
        states, mask = model.mix_texts([TEXTS_A[row]], [TEXTS_B[row]], ALPHA[row].item())
        for share, text in ((ALPHA[row], TEXTS_A[row]), (1 - ALPHA[row], TEXTS_B[row])):
            target = model.tokenize([text])["input_ids"]
            start = torch.full((1, 1), model.seq2seq.config.decoder_start_token_id)
            for step in range(target.shape[1]):
                logits = model.seq2seq(
                    encoder_outputs=(states,),
                    attention_mask=mask,
                    decoder_input_ids=torch.cat([start, target[:, :step]], 1),
                ).logits[0, -1]
                expected[row] -= share * logits.log_softmax(-1)[target[0, step]]
    torch.testing.assert_close(output.reconstruction, expected.mean(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(output.loss, output.reconstruction + output.penalty)


class TestMirrored:
    def test_its_mean_is_that_of_the_papers_loss(self, model: LindaModel) -> None:
        """∫ Eq. 5 dα = ∫ 2α·(mirrored loss at α) dα, over pairs in both orders."""
        ratios = [(i + 0.5) / 20 for i in range(20)]  # the midpoint rule, symmetric about ½

        def losses(a: list[str], b: list[str]) -> list[float]:
            inputs = [_inputs(model, a, b, torch.full((2,), alpha)) for alpha in ratios]
            return [model(**row).reconstruction.item() for row in inputs]

        papers = sum(losses(TEXTS_A, TEXTS_B)) / len(ratios)
        model.config.mirrored = True
        weighted = [2 * alpha * loss for alpha, loss in zip(ratios, losses(TEXTS_A, TEXTS_B), strict=True)]
        assert sum(weighted) / len(ratios) == pytest.approx(papers, rel=1e-3)

    def test_each_text_is_the_first_one_of_its_mixture(self, model: LindaModel) -> None:
        model.config.mirrored = True
        output = model(**_inputs(model, TEXTS_A, TEXTS_B, ALPHA))
        turned = model(**_inputs(model, TEXTS_B, TEXTS_A, ALPHA))
        torch.testing.assert_close(output.log_p_b, turned.log_p_a)
        torch.testing.assert_close(output.reconstruction, turned.reconstruction)


class TestSampledSoftmax:
    def _likelihood(self, model: LindaModel, sample: PieceSample | None) -> torch.Tensor:
        target = model.tokenize(TEXTS_A)
        targets = target["input_ids"].masked_fill(target["attention_mask"] == 0, IGNORED)
        return model.log_likelihood(*model.mix_texts(TEXTS_A, TEXTS_B, 0.5), targets, sample)

    def test_with_all_pieces_nothing_is_estimated(self, model: LindaModel) -> None:
        if model.config.base["model_type"] == "t5":
            pytest.skip("T5 scales its logits")
        vocabulary = model.config.base["vocab_size"]
        sample = PieceSample.draw(model.tokenize(TEXTS_A)["input_ids"], vocabulary, vocabulary)
        torch.testing.assert_close(self._likelihood(model, sample), self._likelihood(model, None))

    def test_the_mean_over_samples_is_the_whole_sum(self) -> None:
        """Σ wᵢ exp(lᵢ) over the pieces of many samples, against Σ exp(lᵢ) over all."""
        logits = torch.randn(200, generator=torch.Generator().manual_seed(0))
        generator = torch.Generator().manual_seed(1)
        own = torch.tensor([150, 7, 150])
        samples = [PieceSample.draw(own, 200, 60, generator) for _ in range(500)]
        sums = torch.stack([(logits[sample.pieces] + sample.log_weights).exp().sum() for sample in samples])
        assert sums.mean() == pytest.approx(logits.exp().sum().item(), rel=0.02)
        for sample in samples[:5]:
            assert len(sample.pieces.unique()) == len(sample.pieces) == 61  # 40 frequent, 20 drawn, 150
            assert sample.pieces[sample.columns[own]].tolist() == own.tolist()
            assert sample.log_weights[sample.columns[own]].tolist() == [0, 0, 0]

    def test_is_used_in_training_only(self, model: LindaModel) -> None:
        if model.config.base["model_type"] == "t5":
            pytest.skip("T5 has no such table of weights")
        inputs = _inputs(model, TEXTS_A, TEXTS_B, ALPHA)
        exact = model(**inputs).reconstruction
        model.config.softmax_sample, model.config.noise = 4, 0.0
        assert model(**inputs).reconstruction == exact
        assert model.train()(**inputs).reconstruction != exact

    def test_a_family_that_scales_its_logits_is_refused(self, model: LindaModel) -> None:
        if model.config.base["model_type"] != "t5":
            pytest.skip("of T5 only")
        model.config.softmax_sample = 4
        with pytest.raises(LindaError, match="softmax_sample=4 is not supported for 't5'"):
            model.train()(**_inputs(model, TEXTS_A, TEXTS_B, ALPHA))


def test_the_penalty_is_over_real_positions_of_both_texts(model: LindaModel) -> None:
    output = model(**_inputs(model, TEXTS_A, TEXTS_B, ALPHA))
    expected = sum(
        model.encode(**model.tokenize([text])).square().sum() for text in TEXTS_A + TEXTS_B
    )  # alone: no padding
    torch.testing.assert_close(output.penalty, 0.001 * expected / 2, rtol=1e-4, atol=1e-5)


def test_sigma_receives_a_gradient(model: LindaModel) -> None:
    model(**_inputs(model, TEXTS_A, TEXTS_B, ALPHA)).loss.backward()
    assert model.converter.log_sigma.grad is not None
    assert model.converter.log_sigma.grad.abs() > 0


def test_noise_in_training_only_and_on_both_texts(model: LindaModel) -> None:
    model.config.noise = 0.5
    for module in model.modules():
        if isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0

    def log_p(alpha: float, seed: int) -> torch.Tensor:
        inputs = _inputs(model, TEXTS_A, TEXTS_B, torch.full((2,), alpha))
        return model(**inputs, generator=torch.Generator().manual_seed(seed)).log_p_a

    model.eval()
    assert torch.equal(log_p(0.5, 1), log_p(0.5, 2))
    model.train()
    for end in (0.0, 1.0):  # at an end only one text is seen: its noise must show
        assert not torch.equal(log_p(end, 1), log_p(end, 2))
    assert torch.equal(log_p(0.5, 3), log_p(0.5, 3))


def test_the_middle_is_noised_in_proportion_to_the_state(tiny_model: LindaModel) -> None:
    alpha = torch.tensor([0.0, 0.1, 0.5, 1.0])
    states = torch.randn(4, 3, 512) * torch.tensor([1.0, 10.0, 0.1])[None, :, None]
    tiny_model.config.noise, tiny_model.config.middle_noise = 0.0, 0.5
    try:
        noise = tiny_model._noised(states, alpha, torch.Generator().manual_seed(0)) - states
    finally:
        tiny_model.config.noise, tiny_model.config.middle_noise = 0.001, 0.0
    share = torch.tensor([0.0, 0.5 * 4 * 0.1 * 0.9, 0.5, 0.0])  # of the state's norm
    torch.testing.assert_close(noise.norm(dim=-1), share[:, None] * states.norm(dim=-1), rtol=0.1, atol=1e-6)


def test_a_typed_mask_token_is_plain_text(tiny_model: LindaModel) -> None:
    mask_id = tiny_model.tokenizer.mask_token_id
    text = "the <mask> cat"
    assert mask_id not in tiny_model.tokenize([text])["input_ids"]
    assert mask_id in tiny_model.tokenize([text], masked=True)["input_ids"]
    assert tiny_model.detokenize(tiny_model.tokenize([text])["input_ids"]) == [text]


class TestGenerate:
    def test_takes_any_decoding_argument(self, model: LindaModel) -> None:
        states, mask = model.mix_texts(TEXTS_A, TEXTS_B, 0.4)
        assert generate(model, states, mask, num_beams=3, num_return_sequences=3).shape[0] == 6
        assert generate(model, states, mask, num_beams=1).shape[0] == 2
        with torch.random.fork_rng(devices=[]):
            assert generate(model, states, mask, num_beams=1, do_sample=True, top_k=5).shape[0] == 2


class TestFolder:
    def test_saved_and_loaded_again_gives_the_same_text(self, model: LindaModel, tmp_path: Path) -> None:
        model.save_pretrained(tmp_path / "model")
        again = LindaModel.from_pretrained(tmp_path / "model")
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, again.state_dict()[name]), name
        ids, ids_again = (generate(one, *one.mix_texts(TEXTS_A, TEXTS_B, 0.5)) for one in (model, again))
        assert torch.equal(ids, ids_again)
        assert again.config.to_json() == model.config.to_json()

    def test_loaded_weights_are_tied_as_the_base_ties_them(self, model: LindaModel, tmp_path: Path) -> None:
        model.save_pretrained(tmp_path / "model")
        again = LindaModel.from_pretrained(tmp_path / "model")
        assert [n for n, _ in again.named_parameters()] == [n for n, _ in model.named_parameters()]

    def test_saving_over_a_model_replaces_it(self, model: LindaModel, tmp_path: Path) -> None:
        model.save_pretrained(tmp_path / "model")
        model.converter.log_sigma.data.fill_(1.5)
        model.save_pretrained(tmp_path / "model")
        assert LindaModel.from_pretrained(tmp_path / "model").converter.log_sigma.item() == 1.5
        assert [path.name for path in tmp_path.iterdir()] == ["model"]

    def test_a_model_that_was_about_to_be_replaced_comes_back(self, model: LindaModel, tmp_path: Path) -> None:
        model.save_pretrained(tmp_path / "model")
        (tmp_path / "model").rename(tmp_path / ".model.linda-replaced")  # as a kill between two renames leaves it
        (tmp_path / "model.old").mkdir()  # not ours
        model.save_pretrained(tmp_path / "model")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "model.old"]

    def test_a_base_in_half_precision_is_trained_in_full(self, tiny_base_folder: Path, tmp_path: Path) -> None:
        shutil.copytree(tiny_base_folder, tmp_path / "half")
        MarianMTModel.from_pretrained(tiny_base_folder).half().save_pretrained(tmp_path / "half")
        model = LindaModel.from_seq2seq(tmp_path / "half")
        model.save_pretrained(tmp_path / "model")
        for one in (model, LindaModel.from_pretrained(tmp_path / "model")):
            assert {weight.dtype for weight in one.parameters()} == {torch.float32}

    def test_from_seq2seq_starts_from_the_bases_weights(self, tiny_base_folder: Path) -> None:
        base = MarianMTModel.from_pretrained(tiny_base_folder)
        model = LindaModel.from_seq2seq(tiny_base_folder, middle_noise=0.5)
        assert torch.equal(model.seq2seq.model.shared.weight, base.model.shared.weight)
        assert model.config.middle_noise == 0.5

    def test_no_folder(self, tmp_path: Path) -> None:
        with pytest.raises(LindaError, match="no model folder"):
            LindaModel.from_pretrained(tmp_path / "nothing")

    def test_a_folder_that_is_no_linda_model(self, tmp_path: Path, tiny_base_folder: Path) -> None:
        with pytest.raises(LindaError, match="not a LINDA model"):
            LindaModel.from_pretrained(tmp_path)
        with pytest.raises(LindaError, match="has no model_type 'linda'"):
            LindaModel.from_pretrained(tiny_base_folder)

    def test_weights_of_another_model(self, tiny_model_folder: Path, model: LindaModel, tmp_path: Path) -> None:
        model.save_pretrained(tmp_path / "model")
        foreign = (tiny_model_folder / "model.safetensors").read_bytes()
        (tmp_path / "model" / "model.safetensors").write_bytes(foreign)
        with pytest.raises(LindaError, match="does not match config"):
            LindaModel.from_pretrained(tmp_path / "model")

    def test_a_base_that_cannot_be_had(self, tmp_path: Path) -> None:
        with pytest.raises(LindaError, match="cannot be loaded as a base"):
            LindaModel.from_seq2seq(tmp_path / "nothing")
