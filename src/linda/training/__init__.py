"""Training: sentences in, a model out.

base        cuts a translation model to a small English base model
settings    the settings of a run, and presets
corpus      sentences to masked, paired minibatches
middle_batches  middles (`linda middles make`) to minibatches
loop        the training loop
stopping    Ctrl-C and termination
validation  measures of interpolation on held-out text
runstate    settings, log and checkpoints on disk
"""

from linda.training.loop import Interrupted, held_out_sentences, pair_sampler, resumed_settings, start_model, train
from linda.training.settings import PRESETS, TrainingSettings, learning_rate

__all__ = [
    "PRESETS",
    "Interrupted",
    "TrainingSettings",
    "held_out_sentences",
    "learning_rate",
    "pair_sampler",
    "resumed_settings",
    "start_model",
    "train",
]
