"""Labelled rows in, more labelled rows out: rows → plan → texts → gates → labels → rows.

    bigger = linda.augment(frame, text="text", label="label", per_row=2)

settings       what a run makes and how
examples       the rows of a table, checked; the columns that are added to them
plan           which rows are mixed, and at which ratio; `neighbours` finds similar rows
balance        how many new rows each class needs, and a plan that spreads them evenly
unlabelled     unlabelled texts as partners
planning       the plan of a run, given or drawn
texts          texts for the rows of a plan, written by a method of `linda.methods`
gates          which new texts are kept
labels         labels of originals and new rows, as distributions; `teacher` predicts them
multi_labels   the same for rows that have several labels
tables         originals and new rows as one table: lists, pandas, `datasets`, Arrow
summary        counts of a run
pipeline       all steps together, and `Augmenter` for data in memory
sampler        the same as a sampler of imbalanced-learn
blocks         a table as a sequence of blocks, and the plan of a block
parts          the folder of a run: a manifest, and the finished part of each block; a `journal` of unfinished ones
block_pipeline all steps for one block: block in, part out
file_pipeline  all steps for files: `preparation`, blocks, one output
ray_executor   blocks on the machines of a Ray cluster; `ray_pool` places the work
"""

from linda.augmentation.pipeline import Augmenter, augment

__all__ = ["Augmenter", "augment"]
