"""LINDA writes the text between two texts, to augment small labelled data sets."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from linda.errors import LindaError

if TYPE_CHECKING:
    from linda.augmentation import Augmenter as Augmenter
    from linda.augmentation import augment as augment
    from linda.augmentation.sampler import LindaSampler as LindaSampler
    from linda.classifier.losses import soft_binary_cross_entropy as soft_binary_cross_entropy
    from linda.classifier.losses import soft_cross_entropy as soft_cross_entropy
    from linda.config import LindaConfig as LindaConfig
    from linda.file_runs.file_pipeline import augment_file as augment_file
    from linda.interpolation import Interpolator as Interpolator
    from linda.model import LindaModel as LindaModel
    from linda.planning.plan import Plan as Plan

__version__ = "0.1.0"

# Public names and their modules. They are imported on first use, so that `import linda` and `linda --help` do not wait
# for torch.
_MODULES = {
    "Augmenter": "linda.augmentation",
    "Interpolator": "linda.interpolation",
    "LindaConfig": "linda.config",
    "LindaModel": "linda.model",
    "LindaSampler": "linda.augmentation.sampler",
    "Plan": "linda.planning.plan",
    "augment": "linda.augmentation",
    "augment_file": "linda.file_runs.file_pipeline",
    "soft_binary_cross_entropy": "linda.classifier.losses",
    "soft_cross_entropy": "linda.classifier.losses",
}

__all__ = ["LindaError", "__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'linda' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
