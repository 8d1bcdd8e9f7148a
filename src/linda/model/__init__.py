"""The model and its files.

linda_model      the equations: encode, convert, mix, log-likelihood
length_converter Eq. 3 and 4: convert two texts to the same length
attention_mixing the other way to mix: the decoder attends to both texts
loss             Eq. 5 and 6, and the distribution of α that they assume
sampled_softmax  the softmax over a part of the vocabulary, for training
tokens           texts to token ids and back, without `transformers`
weights          weights on disk, in 8, 16 or 32 bits
checkpoint       model folders
architecture     checks of a configuration, before anything is allocated
pretrained       loading `transformers` models; the kind of a model folder; devices
batching         batches of similar length, and padding
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from linda.model.length_converter import LengthConverter as LengthConverter
    from linda.model.length_converter import mixed_lengths as mixed_lengths
    from linda.model.linda_model import LindaModel as LindaModel
    from linda.model.loss import IGNORED as IGNORED
    from linda.model.loss import LindaOutput as LindaOutput

# Imported on first use, so that tokens and checkpoints can be read without importing torch.
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
