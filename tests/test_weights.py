"""Weights on disk: rounding errors, file sizes and error messages."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from transformers import MarianConfig, MarianMTModel

from linda.errors import LindaError
from linda.model.weights import load_weights, save_weights


def matrix(rows: int, columns: int, seed: int = 0) -> Tensor:
    """Rows of very different sizes, as embeddings of frequent and rare pieces are."""
    generator = torch.Generator().manual_seed(seed)
    sizes = 10.0 ** torch.linspace(-4, 2, rows)[:, None]
    return torch.randn(rows, columns, generator=generator) * sizes


def stored_names(path: Path) -> set[str]:
    with safe_open(path, framework="pt") as file:
        return set(file.keys())


def test_in_8_bits_no_weight_is_off_by_more_than_half_its_rows_scale(tmp_path: Path) -> None:
    weight = matrix(50, 64)
    save_weights({"w": weight}, tmp_path / "w.safetensors", bits=8)
    error = (load_weights(tmp_path / "w.safetensors")["w"] - weight).abs().amax(dim=1)
    scale = weight.abs().amax(dim=1) / 127
    assert (error <= 0.51 * scale + 1e-6).all()  # scales are 16-bit numbers: slightly more than a half
    assert (error > 0).all()


def test_a_row_of_zeros_stays_zero(tmp_path: Path) -> None:
    weight = torch.cat([torch.zeros(1, 8), matrix(3, 8)])
    save_weights({"w": weight}, tmp_path / "w.safetensors", bits=8)
    assert (load_weights(tmp_path / "w.safetensors")["w"][0] == 0).all()


@pytest.mark.parametrize("bits", [8, 16])
def test_vectors_and_single_rows_keep_16_bits(tmp_path: Path, bits: int) -> None:
    state = {"bias": matrix(1, 40)[0], "logits_bias": torch.linspace(-100, 3, 40)[None], "sigma": torch.tensor(0.4)}
    save_weights(state, tmp_path / "w.safetensors", bits=bits)
    loaded = load_weights(tmp_path / "w.safetensors")
    for name, value in state.items():
        torch.testing.assert_close(loaded[name], value, rtol=5e-4, atol=1e-7)


def test_32_bits_lose_nothing(tmp_path: Path) -> None:
    state = {"w": matrix(5, 6), "counts": torch.arange(4)}
    save_weights(state, tmp_path / "w.safetensors", bits=32)
    loaded = load_weights(tmp_path / "w.safetensors")
    assert torch.equal(loaded["w"], state["w"])
    assert torch.equal(loaded["counts"], state["counts"])


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_a_weight_takes_its_bits_and_comes_back_as_float32(tmp_path: Path, bits: int) -> None:
    save_weights({"w": matrix(1000, 256)}, tmp_path / "w.safetensors", bits=bits)
    size = (tmp_path / "w.safetensors").stat().st_size
    assert size == pytest.approx(1000 * 256 * bits / 8, rel=0.02)
    assert load_weights(tmp_path / "w.safetensors")["w"].dtype == torch.float32


def test_a_shared_tensor_is_stored_once_and_comes_back_under_every_name(tmp_path: Path) -> None:
    shared = matrix(20, 8)
    state = {"shared": shared, "lm_head": shared, "copy": shared.clone()}
    save_weights(state, tmp_path / "w.safetensors", bits=32)
    assert stored_names(tmp_path / "w.safetensors") == {"shared", "copy"}
    loaded = load_weights(tmp_path / "w.safetensors")
    assert loaded["lm_head"] is loaded["shared"]
    assert all(torch.equal(loaded[name], state[name]) for name in state)


@pytest.mark.parametrize("bits", [8, 32])
def test_a_marian_model_comes_back_whole_without_its_position_tables(tmp_path: Path, bits: int) -> None:
    config = MarianConfig(
        vocab_size=30,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=8,
        decoder_ffn_dim=8,
        max_position_embeddings=40,
        pad_token_id=2,
        decoder_start_token_id=2,
    )
    model = MarianMTModel(config)
    save_weights(model.state_dict(), tmp_path / "w.safetensors", bits=bits)
    stored = stored_names(tmp_path / "w.safetensors")
    assert not any("embed_positions" in name or name == "lm_head.weight" for name in stored)

    other = MarianMTModel(config)
    loaded = load_weights(tmp_path / "w.safetensors")
    other.load_state_dict(loaded)  # strict: every name is there
    table = "model.decoder.embed_positions.weight"
    torch.testing.assert_close(loaded[table], model.state_dict()[table])


def test_the_file_says_how_it_was_written(tmp_path: Path) -> None:
    save_weights({"w": matrix(4, 4)}, tmp_path / "w.safetensors", bits=8)
    with safe_open(tmp_path / "w.safetensors", framework="pt") as file:
        assert json.loads(file.metadata()["linda"])["bits"] == 8
    assert (tmp_path / "w.safetensors").stat().st_mode & 0o444 == 0o444
    assert [path.name for path in tmp_path.iterdir()] == ["w.safetensors"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_weights({"w": matrix(4, 4)}, path, bits=8)
    before = path.read_bytes()
    with pytest.raises(LindaError, match="w contains numbers that 16 bits cannot represent"):
        save_weights({"w": torch.full((4, 4), torch.nan)}, path, bits=8)
    assert path.read_bytes() == before


@pytest.mark.parametrize("size", [0, 5, 100, -1])
def test_a_truncated_file_is_named(tmp_path: Path, size: int) -> None:
    path = tmp_path / "w.safetensors"
    save_weights({"w": matrix(20, 20)}, path, bits=8)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(LindaError, match=r"w\.safetensors is damaged"):
        load_weights(path)


def test_a_foreign_file_is_named(tmp_path: Path) -> None:
    save_file({"w": matrix(2, 2)}, tmp_path / "foreign.safetensors")
    with pytest.raises(LindaError, match=r"foreign\.safetensors does not contain weights written by LINDA"):
        load_weights(tmp_path / "foreign.safetensors")
    shapes = ([1], [1_000_000, 1_000_000], [-2, -2])
    tables = [json.dumps({"shared": {}, "sinusoids": {"a": shape}}) for shape in shapes]
    for content in ("[]", "{}", '{"shared": {"a": "b"}, "sinusoids": {}}', *tables):
        save_file({"w": matrix(2, 2)}, tmp_path / "foreign.safetensors", metadata={"linda": content})
        with pytest.raises(LindaError, match=r"foreign\.safetensors"):
            load_weights(tmp_path / "foreign.safetensors")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(LindaError, match=r"cannot read .*none\.safetensors: no such file"):
        load_weights(tmp_path / "none.safetensors")
    (tmp_path / "folder").mkdir()
    with pytest.raises(LindaError, match="folder"):
        load_weights(tmp_path / "folder")


def test_other_bits_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LindaError, match="bits is 4; it must be 8, 16 or 32"):
        save_weights({}, tmp_path / "w.safetensors", bits=4)
