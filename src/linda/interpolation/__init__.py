"""Texts in, texts out.

interpolator   pairs of texts and ratios become batches and texts again
jobs           rows of pairs and ratios, checked; the parts of a row that fit the window
encoded_texts  the encoder's states, none computed twice
crossing       which crossover of two texts the decoder finds best
between        what must hold for a text between the two ends
calibration    the ratio to mix for the ratio asked for
longtext       texts longer than the model's window, sentence by sentence
memory         freed memory, given back to the system
"""

from linda.interpolation.interpolator import Interpolator, engine_for

__all__ = ["Interpolator", "engine_for"]
