"""Training: sentences in, a model out.

base        cuts a translation model to a small English base model
settings    the settings of a run, and presets
corpus      the sentences of a corpus, masked words and varied styles
pair_batches    sentences to masked, paired minibatches
middle_batches  middles (`linda middles make`) to minibatches
data        what is held out, and minibatches of all kinds
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
