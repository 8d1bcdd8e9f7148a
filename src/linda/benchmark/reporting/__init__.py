"""Tables, figures and advice, made from the cells alone.

paper      the scores that the paper reports, how each of its experiments is requested, and how ours differ
results    cells put together: the scores of each method in each column, by seed
advice     one sentence per task
tables     Markdown tables
csv_files  the same numbers for programs
figures    the tables as pictures
report     all of it as one document
"""
