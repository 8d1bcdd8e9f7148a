"""The models that augmentation methods need, and the methods themselves, loaded once in a process."""

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
    """Folders or hub names. None: the embedded model, or none at all."""

    linda: str | None = None
    masked: str | None = None  # of SSMBA; None: the LINDA model
    there: str | None = None  # of back-translation
    back: str | None = None
    trigrams: str | None = None  # file of crossover
    engine: str = "auto"  # that runs the LINDA model

    def check(self, names: set[str]) -> None:
        """Before anything is computed: every augmentation method has the models that it needs."""
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

    def use_linda(self, method: str | None) -> bool:
        """Whether a method runs the LINDA model."""
        return method == "linda" or (method == "ssmba" and self.masked is None)


def check_model(model: str) -> None:
    """A folder must hold a model; any other name is taken for one of the hub, unless it can only be a path."""
    checked_path(model)
    if not model.isprintable() and not Path(model).is_dir():
        raise LindaError(f"there is no folder {model!r} with a model")
    is_path = Path(model).is_absolute() or model.startswith((".", "~")) or model.count("/") > 1
    if is_path and not Path(model).is_dir():
        raise LindaError(f"there is no folder {model!r} with a model")
    if Path(model).is_dir() and not (Path(model) / CONFIG_FILE).is_file():
        raise LindaError(f"the folder {model!r} holds no model: it has no {CONFIG_FILE}")


def augmentation_methods() -> list[str]:
    """The names of all methods that make new texts."""
    return methods.names()


def mixes_texts(method: str) -> bool:
    """Whether a method makes a text of two, with a partner and a ratio."""
    return methods.find(method).needs_partner


@lru_cache(maxsize=4)
def load_method(name: str, models: Models, raw: bool) -> Any:
    """The method with its models. raw: LINDA's ratio without calibration."""
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
    """One copy in memory, for all methods that use it."""
    return Interpolator.from_pretrained(model, engine=engine)
