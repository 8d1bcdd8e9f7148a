"""Sentences in, a model out.

base        a translation model cut to a small English one, to start from
settings    all that decides what a run computes, and the presets
corpus      sentences become masked, paired minibatches
middle_batches  middles (`linda middles make`) become minibatches
loop        the updates
stopping    Ctrl-C and termination
validation  does the model interpolate, on text it has not seen?
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
