"""Bad inputs by the thousand, drawn from a seed: kind of mistake × command × random values.

world     the good files and models that every case begins from
mistakes  what can be wrong with a value, a path, a file, a folder
cases     a command line with one mistake in it, and what must come of it
running   one case in a process of its own, and what is checked afterwards

    python -m tests.fuzz --cases 5000 --seed 7
"""
