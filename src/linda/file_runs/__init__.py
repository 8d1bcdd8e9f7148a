"""Augmentation of files of any size: `linda.augment_file`. Block by block, resumable, on one machine or a cluster.

blocks          a table as a sequence of blocks, and the plan of a block
parts           the folder of a run: a manifest, and the finished part of each block
journal         the finished chunks of an unfinished block
preparation     what is done once: the input is checked, counted and cut into blocks
block_pipeline  all steps for one block: block in, part out
file_pipeline   all steps for a file: preparation, blocks, one output
ray_pool        work on the machines of a Ray cluster
ray_executor    blocks on the machines of a Ray cluster
"""
