"""Checks of a model configuration, before any memory is allocated for it.

A configuration is untrusted input. `transformers` does not check most of it: it would try to build a billion layers,
and a string instead of a number fails somewhere inside the network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from linda.errors import LindaError, checked_integer, shortened

MAX_LAYERS = 1000
_MAX_SIZE = 10_000_000
_MAX_WEIGHTS = 2**40

_LAYERS = (
    "encoder_layers",
    "decoder_layers",
    "num_layers",
    "num_decoder_layers",
    "num_hidden_layers",
    "num_encoder_layers",
    "n_layer",
    "n_layers",
)
_WIDTHS = ("d_model", "hidden_size", "n_embd", "dim")
_HEADS = (
    "encoder_attention_heads",
    "decoder_attention_heads",
    "num_attention_heads",
    "num_key_value_heads",
    "num_heads",
    "n_head",
    "n_heads",
)
_SIZES = (
    *_WIDTHS,
    *_HEADS,
    "vocab_size",
    "decoder_vocab_size",
    "max_position_embeddings",
    "encoder_ffn_dim",
    "decoder_ffn_dim",
    "intermediate_size",
    "d_ff",
    "d_kv",
    "head_dim",
    "n_positions",
    "type_vocab_size",
)
_TOKENS = (
    "pad_token_id",
    "eos_token_id",
    "bos_token_id",
    "decoder_start_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
)
BART_FAMILY = ("bart", "mbart", "marian", "pegasus")
_REQUIRED_BY_BART_FAMILY = (  # the int8 engine reads these without `transformers`, which has defaults
    "d_model",
    "encoder_layers",
    "decoder_layers",
    "encoder_attention_heads",
    "decoder_attention_heads",
    "encoder_ffn_dim",
    "decoder_ffn_dim",
    "max_position_embeddings",
    "vocab_size",
)


def check_architecture(settings: Mapping[str, Any], place: str) -> None:
    """Check that all sizes are numbers within bounds, and that heads and special tokens fit the sizes.

    Args:
        settings: Configuration in the format of `transformers`.
        place: Name of the configuration in messages.
    """
    try:
        _check(settings)
        if settings.get("model_type") in BART_FAMILY:
            for name in _REQUIRED_BY_BART_FAMILY:
                if settings.get(name) is None:
                    raise LindaError(f"{name} is missing")
    except LindaError as error:
        raise LindaError(f"{place}: {error}; download or save the model again") from error


def _check(settings: Mapping[str, Any]) -> None:
    family = settings.get("model_type")
    if not isinstance(family, str) or not family.isprintable():
        raise LindaError(f"model_type is {shortened(family)}; it must name the family of the model")
    for name in _LAYERS:
        if settings.get(name) is not None:
            checked_integer(settings[name], name, 1, MAX_LAYERS)
    for name in _SIZES:
        if settings.get(name) is not None:
            checked_integer(settings[name], name, 0 if name == "type_vocab_size" else 1, _MAX_SIZE)
    _check_heads(settings)
    _check_tokens(settings)
    if min_weights(settings) > _MAX_WEIGHTS:
        raise LindaError(f"the model would have {min_weights(settings):,} weights; the maximum is {_MAX_WEIGHTS:,}")
    for part in ("encoder", "decoder", "text_config"):
        if isinstance(settings.get(part), dict):
            _check(settings[part])


def _check_heads(settings: Mapping[str, Any]) -> None:
    width = _first(settings, _WIDTHS)
    if width is None or "d_kv" in settings or "head_dim" in settings:  # the head size is independent of the width
        return
    for name in _HEADS:
        heads = settings.get(name)
        if heads is not None and name != "num_key_value_heads" and width % heads:
            raise LindaError(f"{name} is {heads}, which does not divide the width {width}")


def _check_tokens(settings: Mapping[str, Any]) -> None:
    tokens = max(settings.get("vocab_size") or 0, settings.get("decoder_vocab_size") or 0)
    if tokens:
        check_special_tokens(settings, tokens)


def check_special_tokens(settings: Mapping[str, Any], tokens: int) -> None:
    """Check that the special tokens in a configuration are ids of a vocabulary of `tokens` tokens."""
    for name in _TOKENS:
        value = settings.get(name)
        if value is None or value == -1:  # no such token
            continue
        for number in value if isinstance(value, list) and value else [value]:
            checked_integer(number, name, 0, tokens - 1)


def min_weights(settings: Mapping[str, Any]) -> int:
    """Return a lower bound of the number of weights: the embeddings, and one matrix per layer."""
    width = _first(settings, _WIDTHS) or 0
    # In the BART family, num_hidden_layers is a second name of encoder_layers.
    duplicate = "num_hidden_layers" if settings.get("encoder_layers") is not None else None
    layers = sum(settings.get(name) or 0 for name in _LAYERS if name != duplicate)
    return width * (settings.get("vocab_size") or 0) + layers * (width * width if "d_kv" not in settings else width)


def _first(settings: Mapping[str, Any], names: Sequence[str]) -> int | None:
    return next((settings[name] for name in names if settings.get(name) is not None), None)


def check_fits_files(settings: Mapping[str, Any], folder: Path) -> None:
    """Raise an error if the files of a folder are too small for the weights in its configuration."""
    files = [file for file in folder.iterdir() if file.suffix in (".safetensors", ".bin", ".gguf", ".h5", ".msgpack")]
    held = sum(file.stat().st_size for file in files if file.is_file())
    described = min_weights(settings)
    if files and described > 8 * held:  # even 4-bit weights take half a byte
        raise LindaError(
            f"{folder}: config.json describes {described:,} weights or more, but its files have {held:,} bytes; "
            "download the model again"
        )


def check_shapes(base: Mapping[str, Any], shapes: Mapping[str, Sequence[int]], place: str) -> None:
    """Raise an error unless stored weights match the configuration; only for the BART family.

    Args:
        base: Configuration of the encoder-decoder.
        shapes: Shapes by the names of `LindaModel.state_dict`.
        place: Name of the weights file in messages.
    """
    if base.get("model_type") not in BART_FAMILY:
        return  # checked by `transformers` on loading
    for name, expected in _expected_shapes(base):
        found = shapes.get(name)
        if found is None or list(found) != list(expected):
            problem = "is missing" if found is None else f"has the shape {list(found)}, expected {list(expected)}"
            raise LindaError(f"{place} does not match config.json: {name} {problem}; download the model again")
    for part in ("encoder", "decoder"):
        stored = {name.split(".")[4] for name in shapes if name.startswith(f"seq2seq.model.{part}.layers.")}
        if len(stored) != base[f"{part}_layers"]:
            raise LindaError(
                f"{place} does not match config.json: it has {len(stored)} {part} layers, expected "
                f"{base[f'{part}_layers']}; download the model again"
            )


def _expected_shapes(base: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    width = base["d_model"]
    vocabulary = {"encoder": base["vocab_size"], "decoder": base.get("decoder_vocab_size") or base["vocab_size"]}
    positions = base["max_position_embeddings"] + (2 if base["model_type"] in ("bart", "mbart") else 0)
    for part, attentions in (("encoder", ("self_attn",)), ("decoder", ("self_attn", "encoder_attn"))):
        prefix = f"seq2seq.model.{part}"
        yield f"{prefix}.embed_tokens.weight", (vocabulary[part], width)
        yield f"{prefix}.embed_positions.weight", (positions, width)
        for number in range(base[f"{part}_layers"]):
            layer = f"{prefix}.layers.{number}"
            inner = base[f"{part}_ffn_dim"]
            for attention in attentions:
                for projection in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    yield f"{layer}.{attention}.{projection}.weight", (width, width)
                    yield f"{layer}.{attention}.{projection}.bias", (width,)
                yield f"{layer}.{attention}_layer_norm.weight", (width,)
                yield f"{layer}.{attention}_layer_norm.bias", (width,)
            yield f"{layer}.final_layer_norm.weight", (width,)
            yield f"{layer}.final_layer_norm.bias", (width,)
            yield f"{layer}.fc1.weight", (inner, width)
            yield f"{layer}.fc1.bias", (inner,)
            yield f"{layer}.fc2.weight", (width, inner)
            yield f"{layer}.fc2.bias", (width,)
    yield "seq2seq.lm_head.weight", (vocabulary["decoder"], width)
    yield "seq2seq.final_logits_bias", (1, vocabulary["decoder"])
