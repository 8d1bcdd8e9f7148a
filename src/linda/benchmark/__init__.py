"""Does augmentation help, on which data, and which kind? The paper's experiments (§6, Appendices B to D), and anyone's.

tasks      labelled texts: the paper's data sets from a folder or the hub, or one's own files
protocol   which rows train and which are tested: k-shot, full, by domain
methods    what is done to the training rows: nothing, EDA, SSMBA, mixup, back-translation, LINDA
cells      one task, one method, one seed: the unit of work, kept as one JSON file
run        all cells of a grid that are not there yet, several at a time
report     tables, figures and advice from the cells
paper      the paper's own figures and experiments
"""
