"""Profile of decoding: processor time by function, one thread.

    python benchmarks/decode_profile.py MODEL SENTENCES --pairs 200 --engine int8

`--engine generate` is the loop of `transformers` on padded batches of 32. The time of a function is its own plus that
of the PyTorch operations that it calls directly. The profiler slightly overestimates small functions.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import click
import torch
from decode import Way, about_machine, draw_jobs, generate_in_batches, markdown, through_engine

import linda
from linda import engines
from linda.interpolation import Interpolator
from linda.model import LindaModel

Function = tuple[str, int, str]  # file, line, name

_GENERATE = "generate"

_PACKAGE = Path(linda.__file__).parent


@click.command(help=__doc__.splitlines()[0] if __doc__ else None)
@click.argument("model", type=click.Path(exists=True, file_okay=False))
@click.argument("sentences", type=click.Path(exists=True, dir_okay=False))
@click.option("--pairs", default=200, show_default=True)
@click.option("--engine", type=click.Choice([*engines.NAMES, _GENERATE]), default=engines.NAMES[0], show_default=True)
@click.option("--beams", default=4, show_default=True)
@click.option("--rows", default=20, show_default=True, help="Number of functions in the table, the slowest first.")
@click.option("--seed", default=0, show_default=True)
def main(model: str, sentences: str, pairs: int, engine: str, beams: int, rows: int, seed: int) -> None:
    torch.set_num_threads(1)
    jobs = draw_jobs(sentences, pairs, seed)
    way = find_way(engine, model, beams)
    way(jobs[:2])  # warm up
    profile = cProfile.Profile(time.process_time)
    profile.runcall(way, jobs)
    seconds = own_seconds(pstats.Stats(profile))
    whole = sum(seconds.values())
    slowest = sorted(seconds.items(), key=lambda item: -item[1])[:rows]
    click.echo(f"{engine}, {pairs} pairs of {Path(sentences).name}, beam {beams}. {about_machine()['machine']}.\n")
    table = [[name, f"{1000 * spent / pairs:.2f}", f"{spent / whole:.0%}"] for name, spent in slowest]
    table.append(["all", f"{1000 * whole / pairs:.2f}", ""])
    click.echo("\n".join(markdown(["function", "ms/pair", "share"], table)))


def find_way(name: str, model: str, beams: int) -> Way:
    if name == _GENERATE:
        return generate_in_batches(LindaModel.from_pretrained(model), 32, beams)
    return through_engine(Interpolator.from_pretrained(model, engine=name), beams)


def own_seconds(stats: pstats.Stats) -> dict[str, float]:
    """Return the time of each function itself and of the built-in operations that it calls."""
    calls: dict[Function, tuple[Any, ...]] = stats.stats  # type: ignore[attr-defined]
    spent: dict[str, float] = defaultdict(float)

    def give(function: Function, seconds: float) -> None:
        """Attribute the time of an operation to its callers, in proportion."""
        callers = calls[function][-1] if is_operation(function) else {}
        whole = sum(within for *_, within in callers.values())
        if not whole:
            spent[label(function)] += seconds
            return
        for caller, (*_, within) in callers.items():
            give(caller, seconds * within / whole)

    for function, (_, _, own, _, _) in calls.items():
        give(function, own)
    return spent


def is_operation(function: Function) -> bool:
    """Whether this is built in, or `torch.ops`, which calls the 8-bit kernels."""
    return function[0] == "~" or function[0].endswith("torch/_ops.py")


def label(function: Function) -> str:
    """Name functions by file, those of libraries by their file in the package."""
    file, _, name = function
    path = Path(file)
    if path.is_relative_to(_PACKAGE):
        return f"{path.relative_to(_PACKAGE)}: {name}"
    _, installed, place = file.rpartition("site-packages/")
    return f"{place}: {name}" if installed else "Python itself"


if __name__ == "__main__":
    main()
