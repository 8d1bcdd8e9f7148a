"""Labelled rows in, more labelled rows out: rows → plan → texts → gates → labels → rows.

    bigger = linda.augment(frame, text="text", label="label", per_row=2)

settings     what a run makes and how
texts        texts for the rows of a plan, written by a method of `linda.methods`
gates        which new texts are kept
label_rules  how new rows are labelled: from the labels of their parents, or as a teacher predicts
teacher      classifiers that predict labels: fine-tuned on the originals, or loaded
tables       originals and new rows as one table: lists, pandas, `datasets`, Arrow
summary      notes for the user, and counts of a run
pipeline     all steps together, as functions of rows and settings
augmenter    the same on data in memory
sampler      the same as a sampler of imbalanced-learn

`linda.planning` reads the rows and draws the plan. `linda.file_runs` runs these steps on files of any size.
"""

from linda.augmentation.augmenter import Augmenter, augment

__all__ = ["Augmenter", "augment"]
