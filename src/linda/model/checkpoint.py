"""Model folders: `config.json`, `model.safetensors` and the tokenizer files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from linda.config import LindaConfig
from linda.errors import LindaError, reason, shortened
from linda.files.folders import atomic_folder, check_replaceable
from linda.files.paths import checked_path
from linda.files.textio import atomic_writer
from linda.model.architecture import check_architecture, check_shapes
from linda.model.pretrained import CONFIG_FILE, ModelKind, kind_of_model, quiet_loading

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from linda.model.attention_mixing import AttentionMixing
    from linda.model.length_converter import LengthConverter

EMBEDDED = Path(__file__).parents[1] / "embedded"

WEIGHTS_FILE = "model.safetensors"
TOKENIZER_FILE = "tokenizer.json"


def load_config(folder: Path) -> LindaConfig:
    """Load the settings, and check them against the shapes of the stored weights before allocating memory."""
    from linda.model.weights import stored_shapes

    path = folder / CONFIG_FILE
    if not path.is_file():
        raise LindaError(f"{folder} is not a LINDA model: it has no {CONFIG_FILE}")
    config = LindaConfig.from_json(path)
    check_architecture(config.base, f"{path}, base")
    for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
        if config.base.get(name) in (None, -1, []):
            raise LindaError(f"{path}, base: {name} is missing; save the model again")
    check_shapes(config.base, stored_shapes(folder / WEIGHTS_FILE), str(folder / WEIGHTS_FILE))
    return config


def load_seq2seq(folder: Path, config: LindaConfig) -> Any:
    """Load the encoder-decoder with `transformers`."""
    seq2seq = _empty_seq2seq(config.base, folder / CONFIG_FILE)
    # `transformers` ignores this setting for some models; without it, the engines would begin texts differently.
    seq2seq.generation_config.forced_bos_token_id = config.base.get("forced_bos_token_id")
    _load_weights_into(seq2seq, folder, "seq2seq.")
    return seq2seq


def load_converter(folder: Path) -> LengthConverter:
    from linda.model.length_converter import LengthConverter

    converter = LengthConverter()
    _load_weights_into(converter, folder, "converter.")
    sigma = converter.sigma.item()
    if not 1e-3 < sigma < 1e3:
        raise LindaError(
            f"{folder / WEIGHTS_FILE}: the length converter's sigma is {sigma:g}; download the model again"
        )
    return converter


def load_attention_mixing(folder: Path, config: LindaConfig) -> AttentionMixing | None:
    """Load the weights of attention mixing; None for a model that only mixes states."""
    if config.mixing != "attention":
        return None
    from linda.model.attention_mixing import AttentionMixing

    mixing = AttentionMixing(config.base["d_model"])
    _load_weights_into(mixing, folder, "attention_mixing.")
    return mixing


def _load_weights_into(module: nn.Module, folder: Path, prefix: str) -> None:
    """Load the weights whose names begin with `prefix` into a part of the model."""
    from linda.model.weights import load_weights

    path = folder / WEIGHTS_FILE
    weights = {name.removeprefix(prefix): tensor for name, tensor in load_weights(path, prefix).items()}
    try:
        module.load_state_dict(weights)
    except RuntimeError as error:  # names or shapes that do not match the configuration
        raise LindaError(f"{path} does not match {CONFIG_FILE}: {str(error).splitlines()[-1].strip()}") from error


def save(
    folder: Path, config: LindaConfig, state: dict[str, Tensor], tokenizer: PreTrainedTokenizerBase, bits: int = 32
) -> None:
    """Save a model atomically, with 32, 16 or 8 bits per weight."""
    from linda.model.weights import save_weights

    with atomic_folder(folder, ModelKind.LINDA.value, _is_linda_model) as part:
        tokenizer.save_pretrained(part)
        (part / CONFIG_FILE).write_text(config.to_json(), encoding="utf-8")
        save_weights(state, part / WEIGHTS_FILE, bits)


def check_can_save(folder: Path) -> None:
    """Raise the error that `save` would raise, before hours of work."""
    check_replaceable(folder, ModelKind.LINDA.value, _is_linda_model)


def _is_linda_model(folder: Path) -> bool:
    return kind_of_model(folder) == ModelKind.LINDA


def save_config(config: LindaConfig, folder: Path) -> None:
    """Write only the settings, after calibration."""
    with atomic_writer(folder / CONFIG_FILE) as file:
        file.write(config.to_json())


def model_folder(path: str | Path | None) -> Path:
    """Return the folder of a model, downloaded from the hub if needed; None means the embedded model."""
    if path is None and not EMBEDDED.is_dir():
        raise LindaError(
            "this installation has no embedded model; train one with `linda train`, "
            "then give its folder (--model FOLDER)"
        )
    return local_folder(EMBEDDED if path is None else path)


def local_folder(path: str | Path) -> Path:
    """Return the folder itself, or download a model from the hub and return its folder."""
    place = checked_path(path)
    if place.exists() or not _looks_like_hub_name(str(path)):
        if not place.is_dir():
            raise LindaError(f"there is no model folder {shortened(str(path))}; give one that `linda train` wrote")
        return place
    from huggingface_hub import snapshot_download

    try:
        # Only the files of a LINDA model: no code, no pickle.
        return Path(snapshot_download(str(path), allow_patterns=["*.json", "*.txt", "*.safetensors", "*.spm"]))
    except Exception as error:
        raise LindaError(
            f"there is no folder {shortened(str(path))}, and it could not be downloaded from the hub "
            f"({type(error).__name__}); check the name and the connection"
        ) from error


def _looks_like_hub_name(path: str) -> bool:
    parts = path.split("/")
    return len(parts) == 2 and all(parts) and parts[0] not in {".", "..", "~"}


def _empty_seq2seq(base: dict[str, Any], place: Path) -> PreTrainedModel:
    """Create the encoder-decoder without initializing its weights, which are loaded next."""
    from transformers import AutoConfig, AutoModelForSeq2SeqLM
    from transformers.initialization import no_init_weights

    settings = {name: value for name, value in base.items() if name not in {"model_type", "auto_map"}}
    with quiet_loading():
        try:
            config = AutoConfig.for_model(base["model_type"], **settings)
            with no_init_weights():
                seq2seq = AutoModelForSeq2SeqLM.from_config(config)
            seq2seq.tie_weights()  # `from_config` skips this with no_init_weights
        except Exception as error:  # the type of the exception depends on the model family
            raise LindaError(f"{place}: base does not describe an encoder-decoder ({reason(error)})") from error
    return seq2seq


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    # With this file, the class of the tokenizer is not needed.
    loader = PreTrainedTokenizerFast if (folder / TOKENIZER_FILE).is_file() else AutoTokenizer
    try:
        with quiet_loading():
            return loader.from_pretrained(folder)
    except Exception as error:  # `tokenizers` raises a plain Exception for a damaged file
        raise LindaError(f"{folder}: the tokenizer cannot be loaded ({reason(error)}); download it again") from error
