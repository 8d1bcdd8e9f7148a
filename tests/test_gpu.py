"""Settings for GPUs, tested as far as possible on a CPU."""

from pathlib import Path

import pytest
import torch

from linda.engines.gpu import find_precision, fitting_tokens
from linda.errors import LindaError
from linda.interpolation import Interpolator

MARIAN = {"decoder_layers": 3, "d_model": 512, "vocab_size": 30_000}
BART_LARGE = {"decoder_layers": 12, "d_model": 1024, "vocab_size": 50_265}
T5 = {"num_layers": 6, "d_model": 512, "vocab_size": 32_128}
GIGABYTE = 2**30


class TestPrecision:
    def test_half_on_a_gpu_where_nobody_says(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for supported, expected in ((True, torch.bfloat16), (False, torch.float16)):
            monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda supported=supported: supported)
            assert find_precision("auto", torch.device("cuda")) == expected

    def test_whole_on_a_cpu(self) -> None:
        assert find_precision("auto", torch.device("cpu")) == torch.float32

    def test_what_is_asked_for(self) -> None:
        assert find_precision("bf16", torch.device("cpu")) == torch.bfloat16
        with pytest.raises(LindaError, match="unknown precision '4'; choose one of auto, 32, bf16, fp16"):
            find_precision("4", torch.device("cpu"))

    @pytest.mark.parametrize("precision", ["bf16", "fp16"])
    def test_a_model_writes_in_half_precision(self, precision: str) -> None:
        linda = Interpolator.from_pretrained(precision=precision, device="cpu")
        assert linda.engine.name == "torch"
        a, b = "The film was a great success in many countries.", "Who wrote the book?"
        assert linda.mix(a, b, 1.0) == a
        assert linda.mix([a, b], [b, a], [0.0, 1.0]) == [b, b]

    def test_8_bits_are_no_half_precision(self, tiny_model_folder: Path) -> None:
        with pytest.raises(LindaError, match="precision='bf16' applies to the torch engine"):
            Interpolator.from_pretrained(tiny_model_folder, engine="int8", precision="bf16")


class TestFittingTokens:
    def test_grow_with_the_memory_and_fall_with_the_model(self) -> None:
        assert fitting_tokens(MARIAN, 8 * GIGABYTE, 2) == pytest.approx(
            2 * fitting_tokens(MARIAN, 4 * GIGABYTE, 2), rel=0.01
        )
        assert fitting_tokens(BART_LARGE, 8 * GIGABYTE, 2) < fitting_tokens(MARIAN, 8 * GIGABYTE, 2)
        assert fitting_tokens(MARIAN, 8 * GIGABYTE, 4) < fitting_tokens(MARIAN, 8 * GIGABYTE, 2)
        assert fitting_tokens(T5, GIGABYTE, 2) > 1000

    def test_stay_within_sense(self) -> None:
        assert fitting_tokens(MARIAN, 0, 2) == 1
        assert fitting_tokens(MARIAN, 1000 * GIGABYTE, 2) == 2**18
