"""Interpolation of texts, given their ratio or weights.

interpolator   the public class
rows           checked rows: two texts and a ratio, or texts and weights
jobs           rows split into jobs that fit the model's window
job_writer     writes jobs: crossovers, and decoding where there are none
encoded_texts  cache of encoder states
crossing       finds the best crossovers of two or more texts with the decoder
between        decoding rules for texts between the two ends
calibration    the map from the requested ratio to the ratio that is mixed
longtext       texts longer than the model's window, sentence by sentence
memory         freed memory is returned to the system
"""

from linda.interpolation.interpolator import Interpolator, engine_for

__all__ = ["Interpolator", "engine_for"]
