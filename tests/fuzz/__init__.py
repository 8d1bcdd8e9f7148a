"""Bad inputs by the thousand, drawn from a seed: kind of mistake × command × random values.

world     the good files and models that every case begins from
mistakes  what can be wrong with a value, a path, a file, a folder
api       wrong values for the Python API
lines     command lines that work, and what their options take
cases     a command line with one mistake in it, and the expected result
running   one case in a separate process, and the checks afterwards

    python -m tests.fuzz --cases 5000 --seed 7
"""
