"""Texts in, texts out.

interpolator  pairs of texts and ratios become jobs, batches and texts again
between       what must hold for a text between the two ends
calibration   the ratio to mix for the ratio asked for
longtext      texts longer than the model's window, sentence by sentence
memory        freed memory, given back to the system
"""

from linda.interpolation.interpolator import Interpolator, engine_for

__all__ = ["Interpolator", "engine_for"]
