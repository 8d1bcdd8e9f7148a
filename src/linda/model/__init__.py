"""The model and its files.

linda_model      the equations: encode, convert, mix, log-likelihood
length_converter Eq. 3 and 4: convert two texts to the same length
attention_mixing the alternative to Eq. 4: the decoder attends to both texts
loss             Eq. 5 and 6, and the distribution of α that they assume
sampled_softmax  the softmax over a sample of the vocabulary, for training
tokens           texts to token ids and back, without `transformers`
weights          weights on disk, in 8, 16 or 32 bits
checkpoint       model folders
architecture     checks of a configuration, before anything is allocated
pretrained       loading `transformers` models; kinds of model folders; devices
batching         batches of similar length, and padding
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from linda.model.linda_model import LindaModel as LindaModel

__all__ = ["LindaModel"]


def __getattr__(name: str) -> Any:
    """Import the model on first use, so that tokens and checkpoints can be read without importing torch."""
    if name == "LindaModel":
        from linda.model.linda_model import LindaModel

        return LindaModel
    raise AttributeError(f"module 'linda.model' has no attribute {name!r}")
