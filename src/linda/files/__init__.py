"""Files in and out: rows streamed from any format, and written whole or not at all. Nothing here knows a model.

paths     paths that cannot be used, devices and pipes that nothing comes through
textio    text, plain or compressed; a file appears under its name only when whole
folders   a folder appears under its name, or changes, only when whole
jsonfile  one JSON object, checked
rowfile   rows with named columns from text files, one at a time
pairfile  pairs of texts, for `linda interpolate`
tables    CSV, TSV, JSON lines and Parquet, block by block, with the type of every column
inputs    the files of one table: a file, a pipe or a folder of files, local or remote
locks     locks on files, between processes
storage   a folder on any file system; its files appear only when complete
spool     a table on disk, any row of it by its number
shuffle   the rows of a table in random order, in bounded memory
"""
