"""The models that augmentation methods need, and the methods themselves, loaded once per process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

from linda import __version__, methods
from linda.benchmark.run_cache import run_cache
from linda.config import LindaConfig
from linda.errors import LindaError
from linda.files.cache import open_cache
from linda.files.paths import checked_path
from linda.interpolation import Interpolator, engine_for
from linda.methods.cached import CachedMethod
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
        """Raise a LindaError if one of these methods lacks a model."""
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
        """Describe the models of LINDA and SSMBA, one line each, and whether they are like the paper's.

        Args:
            names: Names of augmentation methods.

        Returns:
            The lines of those of the two that are among these methods.

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

    def record(self, method: str | None) -> dict[str, Any]:
        """Return the models that a method runs, by names that change with their content."""
        used: dict[str, Any] = {}
        if self.use_linda(method):
            used |= {"linda_model": model_name(self.linda or str(EMBEDDED))}
            used |= {"engine": engine_for(self.linda, self.engine)}
        if method == "ssmba":
            used["masked_model"] = model_name(self.masked)
        if method == "backtranslation":
            used["translation"] = [model_name(self.there), model_name(self.back)]
        if method == "crossover":
            used["trigrams"] = file_name(str(self.trigrams))
        return used


def _described_model(model: str | None) -> str:
    if model is not None and not Path(model).is_dir():
        return f"the model {model} from the hub"
    config = LindaConfig.from_json((EMBEDDED if model is None else Path(model)) / CONFIG_FILE)
    base = config.base
    size = f"{base.get('encoder_layers')} and {base.get('decoder_layers')} layers of {base.get('d_model')}"
    facts = f"{base.get('model_type')}, {size}, mixing {config.mixing}"
    name = "the embedded model" if model is None else f"the model in {model}"
    is_like_papers = (base.get("model_type"), base.get("d_model"), config.mixing) == ("bart", 1024, "states")
    papers = "of the paper's kind" if is_like_papers else "not the paper's, which is BART-large with mixing states"
    return f"{name} ({facts}), {papers}"


def model_name(model: str | None) -> str | None:
    """Return a hub name unchanged; for a folder, its name and the first digits of a hash of its content."""
    if model is None or not Path(model).is_dir():
        return model
    return f"{Path(model).resolve().name} {_hash(Path(model))}"


@run_cache(maxsize=8)
def _hash(folder: Path) -> str:
    """Hash the settings and weights of a model."""
    digest = sha256()
    for file in sorted([folder / CONFIG_FILE, *folder.glob("*.safetensors"), *folder.glob("*.bin")]):
        if file.is_file():
            with file.open("rb") as opened:
                file_digest(opened, lambda: digest)
    return digest.hexdigest()[:12]


@run_cache(maxsize=2)
def file_name(path: str) -> str:
    """Return the name of a file and the first digits of a hash of its content."""
    with Path(path).open("rb") as opened:
        return f"{Path(path).name} {file_digest(opened, 'sha256').hexdigest()[:12]}"


def check_model(model: str) -> None:
    """Check that a folder contains a model; other names are hub names, unless they can only be paths."""
    checked_path(model)
    is_path = Path(model).is_absolute() or model.startswith((".", "~")) or model.count("/") > 1
    if (is_path or not model.isprintable()) and not Path(model).is_dir():
        raise LindaError(f"there is no folder {model!r}; give the folder of a model")
    if Path(model).is_dir() and not (Path(model) / CONFIG_FILE).is_file():
        raise LindaError(f"the folder {model!r} contains no model: it has no {CONFIG_FILE}")


@run_cache(maxsize=8)
def load_method(name: str, models: Models, raw: bool, cache: str | None = None) -> Any:
    """Load a method with its models.

    Args:
        name: The method.
        models: Models of all methods.
        raw: Use LINDA's ratio without calibration.
        cache: File with texts of earlier runs; see `CachedMethod`. Models are then loaded for new texts only.

    Returns:
        An `AugmentationMethod`.

    Example:
        load_method("linda", Models(), raw=False, cache="texts.cache")
    """
    load = partial(_load, name, models, raw)
    if cache is None:
        return load()
    settings = [__version__, *map(str, models.record(name).values()), str(raw)]
    return CachedMethod(name, load, open_cache(Path(cache)), settings)


def _load(name: str, models: Models, raw: bool) -> Any:
    if name == "linda":
        return methods.load(name, model=_interpolator(models.linda, models.engine), raw=raw)
    if name == "ssmba":
        return methods.load(name, model=models.masked or _interpolator(models.linda, models.engine))
    if name == "backtranslation":
        return methods.load(name, there=models.there, back=models.back)
    if name == "crossover":
        return methods.load(name, trigrams=models.trigrams)
    return methods.load(name)


@run_cache(maxsize=1)
def _interpolator(model: str | None, engine: str) -> Interpolator:
    """Load the model once, for all methods that use it."""
    return Interpolator.from_pretrained(model, engine=engine)
