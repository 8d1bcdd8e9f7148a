"""Tables, figures and advice, computed from the cells only.

paper      the scores that the paper reports, how each of its experiments is requested, and how ours differ
results    aggregated cells: the scores of each method in each column, by seed
advice     one sentence per task
tables     Markdown tables
csv_files  the same numbers as CSV
figures    plots of the tables
report     all of it as one document
"""
