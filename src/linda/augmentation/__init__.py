"""Labelled rows become more of them: plan → texts → gates → labels → rows.

    bigger = linda.augment(frame, text="text", label="label", per_row=2)

In the order in which data flow:

frames       lists, pandas and `datasets`, read as tables and joined with new rows again
examples     the rows of a table, checked; `labels` reads their labels as distributions
plan         who meets whom, at which ratio; `neighbours` finds the rows most alike
writing      tasks become texts, by one of `linda.augmenters`, in one process or several
gates        which texts are kept
generation   plan rows become new rows, labelled by `labels` and, if asked, a `teacher`
records      the columns that say what a row is and where it comes from
summary      what a run made, in a few lines
augmenter    all of it for data in memory
file_run     all of it for files: the `journal` lets a killed run go on, `joined_file` writes its output
"""

from linda.augmentation.augmenter import Augmenter, augment

__all__ = ["Augmenter", "augment"]
