"""Input and output files. Rows are streamed from any format; files are written completely or not at all.

paths     checks of paths; timeouts for pipes without input
textio    text files, plain or compressed; atomic writes
folders   atomic writes of whole folders
jsonfile  one JSON object, checked
rowfile   rows with named columns from text files, one at a time
pairfile  pairs of texts, for `linda interpolate`
tables    CSV, TSV, JSON lines and Parquet, block by block, with the type of every column
inputs    the files of one table: a file, a pipe or a folder of files, local or remote
locks     locks on files, between processes
storage   a folder on any file system, with atomic writes
spool     a table on disk with access to rows by number
cache     expensive results, shared by processes
shuffle   the rows of a table in random order, in bounded memory
"""
