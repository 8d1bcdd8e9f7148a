"""Training a LINDA model on plain sentences.

base        cuts a translation model down to a small English base model
settings    the settings of a run, and presets
corpus      the sentences of a corpus, masking and changes of style
pair_batches    minibatches of masked pairs of sentences
middle_batches  minibatches of middles (`linda middles make`)
data        held-out data, and the stream of minibatches of all kinds
loop        the training loop
stopping    Ctrl-C and termination
validation  measures of interpolation on held-out text
runstate    settings, log and checkpoints on disk
"""

from linda.training.data import pair_sampler
from linda.training.loop import Interrupted, start_model, train
from linda.training.runstate import resumed_settings
from linda.training.settings import PRESETS, TrainingSettings, learning_rate

__all__ = [
    "PRESETS",
    "Interrupted",
    "TrainingSettings",
    "learning_rate",
    "pair_sampler",
    "resumed_settings",
    "start_model",
    "train",
]
