"""Loading `transformers` models, the kind of a model folder, and the device to run on.

Neither `transformers` nor torch is imported before a model is loaded.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linda.errors import LindaError, reason, shortened
from linda.files.jsonfile import read_json_object
from linda.files.paths import checked_path
from linda.model.architecture import check_architecture, check_fits_files, check_special_tokens

if TYPE_CHECKING:
    import torch

SEQ2SEQ = "AutoModelForSeq2SeqLM"

CONFIG_FILE = "config.json"
CLASSIFIER_FILE = "classifier.json"  # the settings of a saved TextClassifier


class ModelKind(Enum):
    """The kind of model in a folder or file."""

    LINDA = "LINDA model"
    CLASSIFIER = "TextClassifier"
    TRANSFORMERS = "model of transformers"
    GGUF = "language model in a .gguf file"


def kind_of_model(path: str | Path) -> ModelKind | None:
    """Return the kind of a model by the names of its files, without loading it; None if there are none (a hub name)."""
    place = checked_path(path)
    if place.is_file():
        return ModelKind.GGUF
    if (place / CLASSIFIER_FILE).is_file():
        return ModelKind.CLASSIFIER
    if (place / CONFIG_FILE).is_file():
        return ModelKind.LINDA if _model_type(place / CONFIG_FILE) == "linda" else ModelKind.TRANSFORMERS
    return ModelKind.GGUF if any(place.glob("*.gguf")) else None


def _model_type(config: Path) -> Any:
    try:
        return read_json_object(config).get("model_type")
    except LindaError:  # reported when it is loaded
        return None


def load_pretrained(
    model_class: str,
    source: str | Path,
    failure: str,
    *,
    advice: str = "",
    extra: str = "base",
    quiet: bool = True,
    dtype: torch.dtype | None = None,
    gguf_file: str | None = None,
) -> tuple[Any, Any]:
    """Load a `transformers` model with its tokenizer.

    Args:
        model_class: Name of an Auto class of `transformers`.
        source: Folder, or name on the hub.
        failure: Beginning of the error message: what cannot be loaded, and as what.
        advice: End of the error message.
        extra: Extra of this package that the model may need.
        quiet: Show no progress bar and no warnings, as always if standard error is not a terminal.
        dtype: Type of the weights; None for that of the file.
        gguf_file: Name of the .gguf file in the folder, if any.

    Returns:
        The model and its tokenizer.

    Example:
        >>> name = "Helsinki-NLP/opus-mt-fr-en"
        >>> load_pretrained(SEQ2SEQ, name, f"the translation model {name!r} cannot be loaded")
    """
    _check_source(source, failure)
    import transformers

    settings = {} if gguf_file is None else {"gguf_file": gguf_file}
    precision = {} if dtype is None else {"dtype": dtype}
    try:
        with quiet_loading() if quiet or not sys.stderr.isatty() else nullcontext():
            if model_class == SEQ2SEQ and not transformers.AutoConfig.from_pretrained(source).is_encoder_decoder:
                raise LindaError(f"{source} is not an encoder-decoder; give one (BART, Marian, T5 …)")
            model = getattr(transformers, model_class).from_pretrained(source, **precision, **settings)
            tokenizer = transformers.AutoTokenizer.from_pretrained(source, **settings)
            _check_loaded(model, tokenizer)
    except LindaError:
        raise
    except ImportError as error:  # Marian tokenizers need sentencepiece, .gguf files need gguf
        raise LindaError(f"{failure}: packages are missing, pip install 'linda[{extra}]' ({reason(error)})") from error
    except Exception as error:  # damaged files raise exceptions of many types
        raise LindaError(f"{failure} ({reason(error)}){advice}") from error
    return model, tokenizer


def _check_loaded(model: Any, tokenizer: Any) -> None:
    """Check for errors that `transformers` does not report on loading."""
    pieces = model.get_input_embeddings().num_embeddings
    largest = max(tokenizer.get_vocab().values(), default=-1)
    if not 0 <= largest < pieces:
        raise ValueError(f"its tokenizer has ids up to {largest}, the model has {pieces} tokens")
    if getattr(model, "generation_config", None) is not None:
        try:
            check_special_tokens(vars(model.generation_config), pieces)
        except LindaError as error:
            raise ValueError(f"generation_config.json: {error}") from error
    window = tokenizer.model_max_length
    if not isinstance(window, int | float) or not window >= 1:
        raise ValueError(f"model_max_length of its tokenizer is {shortened(window)}")
    for name, weight in model.named_parameters():
        if not weight.isfinite().all():
            raise ValueError(f"{name} contains values that are not finite")


def _check_source(source: str | Path, failure: str) -> None:
    """Check the configuration in a folder before `transformers` builds the model."""
    folder = checked_path(source)
    if not folder.is_dir() or not (folder / CONFIG_FILE).exists():
        return
    try:
        settings = read_json_object(folder / CONFIG_FILE)
        check_architecture(settings, str(folder / CONFIG_FILE))
        check_fits_files(settings, folder)
    except LindaError as error:
        raise LindaError(f"{failure} ({error})") from error


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Suppress the progress bar, warnings and recommendations of `transformers` while a model is loaded."""
    from transformers.utils import logging

    verbosity, had_bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        if had_bar:
            logging.enable_progress_bar()


def find_device(name: str = "auto") -> torch.device:
    """Return the device with the given name; auto is the GPU if there is one."""
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.empty(0, device=name).device
        if device.type == "meta":  # tensors without data
            raise ValueError
        return device
    except (RuntimeError, AssertionError, ValueError, TypeError, NotImplementedError) as error:
        raise LindaError(f"device {shortened(name)} is not available; give cpu or auto") from error
