"""What a model is, and what its folder holds.

linda_model      the equations: encode, convert, mix, log-likelihood
length_converter Eq. 3 and 4: two texts brought to one length
loss             Eq. 5 and 6, and the distribution of α that they assume
sampled_softmax  the softmax of training over a part of the vocabulary
tokens           texts to token ids and back, without `transformers`
weights          weights on disk, 8, 16 or 32 bits each
checkpoint       model folders
pretrained       models of `transformers`: what kind a folder holds, loading, devices
batching         batches of like length, and padding
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from linda.model.length_converter import LengthConverter as LengthConverter
    from linda.model.length_converter import mixed_lengths as mixed_lengths
    from linda.model.linda_model import LindaModel as LindaModel
    from linda.model.loss import IGNORED as IGNORED
    from linda.model.loss import LindaOutput as LindaOutput

# Imported when first used: tokens and checkpoints are read without waiting for torch.
_MODULES = {
    "IGNORED": "linda.model.loss",
    "LengthConverter": "linda.model.length_converter",
    "LindaModel": "linda.model.linda_model",
    "LindaOutput": "linda.model.loss",
    "mixed_lengths": "linda.model.length_converter",
}

__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'linda.model' has no attribute {name!r}")
