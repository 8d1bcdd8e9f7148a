"""Decoding settings: checks, and that `generate` uses them and nothing else."""

import pytest
import torch
from transformers import BartConfig, BartForConditionalGeneration, T5Config, T5ForConditionalGeneration

from linda.engines.decoding import Decoding, Frame
from linda.errors import LindaError


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"beams": 0}, "beams is 0"),
        ({"n": 0}, "n is 0"),
        ({"n": 5}, "n=5 is more than beams=4"),
        ({"sample": True, "temperature": 0.0}, "temperature is 0.0;"),
        ({"sample": True, "temperature": float("nan")}, "temperature is nan"),
        ({"sample": True, "top_p": 0.0}, "top_p is 0;"),
        ({"sample": True, "top_p": 1.5}, "top_p is 1.5"),
        ({"sample": True, "top_k": -1}, "top_k is -1"),
        ({"length_penalty": float("inf")}, "length_penalty is inf"),
        ({"no_repeat_ngram": -2}, "no_repeat_ngram is -2"),
        ({"max_ratio": 0.0}, "max_ratio is 0.0;"),
        ({"max_extra": -1}, "max_extra is -1"),
        ({"temperature": 0.7}, "temperature=0.7 applies only to sampling"),
        ({"top_p": 0.9}, "top_p=0.9 applies only to sampling"),
        ({"top_k": 40}, "top_k=40 applies only to sampling"),
    ],
)
def test_a_wrong_value_is_named_in_one_line(settings: dict, named: str) -> None:
    with pytest.raises(LindaError) as error:
        Decoding(**settings)
    assert named in str(error.value)
    assert "\n" not in str(error.value)


def test_samples_need_no_beams() -> None:
    assert Decoding(sample=True, n=9).paths == 9
    assert Decoding(beams=6).paths == 6


def test_the_limit_grows_with_the_mixed_length_and_ends_at_the_window() -> None:
    decoding = Decoding(max_ratio=1.2, max_extra=5)
    assert decoding.limit(10, None) == 17
    assert decoding.limit(11, None) == 19  # 13.2 is rounded up
    assert decoding.limit(1000, 512) == 512
    assert Decoding(max_ratio=0.1, max_extra=0).limit(1, None) == 3  # a first token, one more, the end


def tiny_bart(**settings: object) -> BartForConditionalGeneration:
    torch.manual_seed(0)
    config = BartConfig(
        vocab_size=40,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        init_std=0.7,
    )
    model = BartForConditionalGeneration(config).eval()
    for name, value in settings.items():
        setattr(model.generation_config, name, value)
    return model


def test_a_checkpoints_own_generation_settings_do_not_leak_in() -> None:
    plain = tiny_bart()
    stubborn = tiny_bart(
        num_beams=2,
        max_length=4,
        min_length=3,
        no_repeat_ngram_size=1,
        length_penalty=7.0,
        early_stopping=True,
        bad_words_ids=[[7], [9]],
        repetition_penalty=3.0,
        renormalize_logits=False,
    )
    ids = torch.tensor([[5, 6, 7, 8, 9, 10, 2]])
    decoding = Decoding(no_repeat_ngram=3)
    texts = [model.generate(ids, **decoding.generate_kwargs(model, 7)).tolist() for model in (plain, stubborn)]
    assert texts[0] == texts[1]
    assert len(texts[0][0]) > 4


def test_generate_ends_every_text_and_never_writes_padding() -> None:
    model = tiny_bart()
    model.final_logits_bias[0, model.config.pad_token_id] = 1e3  # padding would win at every step
    ids = model.generate(torch.tensor([[5, 6, 2]]), **Decoding().generate_kwargs(model, 3))[0].tolist()
    assert ids[-1] == model.config.eos_token_id
    assert len(ids) - 1 <= Decoding().limit(3, None)
    assert model.config.pad_token_id not in ids


def test_the_frame_is_read_from_the_model_whatever_its_family() -> None:
    frame = Frame.of(tiny_bart(forced_bos_token_id=0))
    assert frame == Frame(start=2, ends=(2,), pad=1, forced_first=0, window=1024)
    assert frame.banned == [1]
    several_ends = Frame.of(tiny_bart(eos_token_id=[2, 1]))
    assert several_ends.ends == (2, 1)
    assert several_ends.banned == []  # here padding is an end marker


def test_a_model_without_a_start_marker_is_refused_by_name() -> None:
    model = T5ForConditionalGeneration(T5Config(vocab_size=20, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2))
    with pytest.raises(LindaError, match="the base model defines no decoder_start_token_id"):
        Frame.of(model)
