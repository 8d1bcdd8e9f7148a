"""Benchmark of augmentation methods on the user's data, and the paper's experiments (§6, Appendices B to D).

In the order of the data flow:

tasks          labelled texts: the paper's data sets from a folder or the hub, or the user's own files
protocol       which rows are trained on and tested: k-shot, all rows, rare classes, wrong labels, domains
models         the models of the augmentation methods
recipes        the methods by name: settings of augmentation and of training
new_rows       the rows that a method adds to the training rows
settings       what all cells of a folder have in common: student, encoder, teacher, folds
cells          one task, one method, one seed: the unit of work, kept as one JSON file
trial          computes one cell
grid           all cells that are missing, several at a time; `ray_cells` computes them on a Ray cluster
estimate       estimates how long the missing cells will take
learning_rate  search of the learning rate of an encoder
run_cache      caches of what a run reads
reporting      tables, figures and advice from the cells; the paper's own figures
"""
