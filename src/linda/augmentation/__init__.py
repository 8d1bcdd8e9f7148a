"""Labelled rows in, more labelled rows out: rows → plan → texts → gates → labels → rows.

    bigger = linda.augment(frame, text="text", label="label", per_row=2)

settings       what a run makes and how
examples       the rows of a table, checked; the columns that are added to them
planning/      which rows are mixed, and at which ratio
texts          texts for the rows of a plan, written by a method of `linda.methods`
gates          which new texts are kept
labels         labels of originals and new rows, as distributions
multi_labels   the same for rows that have several labels
teacher        classifiers that label new texts
tables         originals and new rows as one table: lists, pandas, `datasets`, Arrow
summary        counts of a run
pipeline       all steps together, and `Augmenter` for data in memory
sampler        the same as a sampler of imbalanced-learn

`linda.file_runs` runs these steps on files of any size.
"""

from linda.augmentation.pipeline import Augmenter, augment

__all__ = ["Augmenter", "augment"]
