"""The models that augmentation methods need, and the methods themselves, loaded once per process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from linda import methods
from linda.config import LindaConfig
from linda.errors import LindaError
from linda.files.paths import checked_path
from linda.interpolation import Interpolator
from linda.methods.crossover import check_trigrams
from linda.middles.ngrams import TrigramModel
from linda.model.checkpoint import CONFIG_FILE, EMBEDDED


@dataclass(frozen=True)
class Models:
    """Folders or hub names; None for the embedded model, or for no model."""

    linda: str | None = None
    masked: str | None = None  # for SSMBA; None: the LINDA model
    there: str | None = None  # for back-translation
    back: str | None = None
    trigrams: str | None = None  # table for crossover
    engine: str = "auto"  # of the LINDA model

    def check(self, names: set[str]) -> None:
        """Raise an error if one of these methods lacks a model."""
        if "backtranslation" in names and not (self.there and self.back):
            raise LindaError(
                "backtranslation needs two translation models: give --translate THERE BACK, or leave it out"
            )
        check_trigrams(names, self.trigrams)
        if self.trigrams is not None:
            TrigramModel.load(self.trigrams)  # raises if it is not a table
        for model in (self.masked, self.there, self.back):
            if model is not None:
                check_model(model)
        if not any(map(self.use_linda, names)):
            return
        if self.linda is None and not EMBEDDED.is_dir():
            raise LindaError(
                "this installation has no embedded model; give the folder of a LINDA model (--model FOLDER)"
            )
        if self.linda is not None and Path(self.linda).is_dir():
            LindaConfig.from_json(Path(self.linda) / CONFIG_FILE)  # raises if it is not a LINDA model

    def described(self, names: set[str]) -> list[str]:
        """One line for each of LINDA and SSMBA among these methods: which model runs it, and whether the paper's does.

        Args:
            names: Names of augmentation methods.

        Returns:
            The lines.

        Example:
            Models(masked="google-bert/bert-base-uncased").described({"ssmba"})
        """
        lines = []
        if "linda" in names:
            lines.append(f"LINDA: {_described_model(self.linda)}")
        if "ssmba" in names and self.masked is not None:
            lines.append(f"SSMBA: the masked language model {self.masked}")
        elif "ssmba" in names:
            lines.append(
                f"SSMBA: {_described_model(self.linda)}; SSMBA is published with a masked language model: "
                "--masked-model google-bert/bert-base-uncased"
            )
        return lines

    def use_linda(self, method: str | None) -> bool:
        """Whether a method runs the LINDA model."""
        return method == "linda" or (method == "ssmba" and self.masked is None)


def _described_model(model: str | None) -> str:
    if model is not None and not Path(model).is_dir():
        return f"the model {model} of the hub"
    config = LindaConfig.from_json((EMBEDDED if model is None else Path(model)) / CONFIG_FILE)
    base = config.base
    size = f"{base.get('encoder_layers')} and {base.get('decoder_layers')} layers of {base.get('d_model')}"
    facts = f"{base.get('model_type')}, {size}, mixing {config.mixing}"
    name = "the embedded model" if model is None else f"the model in {model}"
    is_like_papers = (base.get("model_type"), base.get("d_model"), config.mixing) == ("bart", 1024, "states")
    papers = "of the paper's kind" if is_like_papers else "not the paper's, which is BART-large with mixing states"
    return f"{name} ({facts}), {papers}"


def check_model(model: str) -> None:
    """Check that a folder contains a model; other names are hub names, unless they can only be paths."""
    checked_path(model)
    if not model.isprintable() and not Path(model).is_dir():
        raise LindaError(f"there is no folder {model!r}; give the folder of a model")
    is_path = Path(model).is_absolute() or model.startswith((".", "~")) or model.count("/") > 1
    if is_path and not Path(model).is_dir():
        raise LindaError(f"there is no folder {model!r}; give the folder of a model")
    if Path(model).is_dir() and not (Path(model) / CONFIG_FILE).is_file():
        raise LindaError(f"the folder {model!r} contains no model: it has no {CONFIG_FILE}")


def augmentation_methods() -> list[str]:
    """Return the names of all methods that make new texts."""
    return methods.names()


def mixes_texts(method: str) -> bool:
    """Whether a method mixes two texts, with a partner and a ratio."""
    return methods.find(method).needs_partner


@lru_cache(maxsize=4)
def load_method(name: str, models: Models, raw: bool) -> Any:
    """Load a method with its models. raw: use LINDA's ratio without calibration."""
    if name == "linda":
        return methods.load(name, model=_interpolator(models.linda, models.engine), raw=raw)
    if name == "ssmba":
        return methods.load(name, model=models.masked or _interpolator(models.linda, models.engine))
    if name == "backtranslation":
        return methods.load(name, there=models.there, back=models.back)
    if name == "crossover":
        return methods.load(name, trigrams=models.trigrams)
    return methods.load(name)


@lru_cache(maxsize=1)
def _interpolator(model: str | None, engine: str) -> Interpolator:
    """Load the model once, for all methods that use it."""
    return Interpolator.from_pretrained(model, engine=engine)
