"""Cost of a million rows: rows per second of one core, by engine and length of the texts.

    OMP_NUM_THREADS=1 python benchmarks/cost.py                        # a few minutes
    OMP_NUM_THREADS=1 python benchmarks/cost.py --rows 16 --words 5,20 --method eda --method linda-int8

Measures plan, texts, gates and labels, as in one block; `preparation.py` measures reading and splitting files. Rates
are per second of processor time, so they are valid on a busy machine too; wall-clock rates are beside them. Texts are
sentences of a file (--sentences, one per line), joined or cut to the length; without a file, random words.
"""

import os
import time
from pathlib import Path
from random import Random
from typing import Any

import click

METHODS = ("eda", "splice", "linda-int8", "linda-torch")

_WORDS = """the a of in to was is with on by from that after first large small old river city film war school music
company team game house water world history found made began built called won played wrote good new great early"""


@click.command()
@click.option("--words", default="5,10,20,40", show_default=True, help="Words per text; one row of the table each.")
@click.option("--rows", default=128, show_default=True, help="Texts for LINDA; other methods get 20 times as many.")
@click.option("--method", "methods", multiple=True, type=click.Choice(METHODS), default=METHODS)
@click.option("--model", help="Folder of a LINDA model.  [default: the embedded one]")
@click.option(
    "--sentences", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="One sentence per line."
)
def main(words: str, rows: int, methods: tuple[str, ...], model: str | None, sentences: Path | None) -> None:
    click.echo(f"{os.cpu_count()} cores, OMP_NUM_THREADS {os.environ.get('OMP_NUM_THREADS', 'all')}\n")
    click.echo("| method | words | rows/s of a core | core hours per million rows | wall-clock rows/s |")
    click.echo("|---|---:|---:|---:|---:|")
    for method in methods:
        name, _, engine = method.partition("-")
        augmenter = _augmenter(name, engine, model)
        count = rows if engine else 20 * rows
        _rates(augmenter, _texts(16, 10, sentences, seed=1))  # warm up
        for length in map(int, words.split(",")):
            rate, wall_clock = _rates(augmenter, _texts(count, length, sentences, seed=0))
            hours = 1e6 / rate / 3600
            click.echo(f"| {method} | {length} | {rate:,.1f} | {hours:,.2f} | {wall_clock:,.1f} |")


def _augmenter(name: str, engine: str, model: str | None) -> Any:
    from linda import Augmenter

    of_linda = {"engine": engine, **({} if model is None else {"model": model})} if engine else {}
    return Augmenter(method=name, only_new=True, **of_linda)


def _rates(augmenter: Any, texts: list[str]) -> tuple[float, float]:
    """Return the rows planned per processor second and per second. Rejected texts are part of the work."""
    data = {"text": texts, "label": [number % 2 for number in range(len(texts))]}
    begun, cpu = time.perf_counter(), time.process_time()
    augmenter.augment(data)
    return len(texts) / (time.process_time() - cpu), len(texts) / (time.perf_counter() - begun)


def _texts(count: int, words: int, sentences: Path | None, seed: int) -> list[str]:
    """Make texts of `words` words each."""
    random = Random(seed)
    if sentences is None:
        return [" ".join(random.choices(_WORDS.split(), k=words)).capitalize() + "." for _ in range(count)]
    lines = sentences.read_text(encoding="utf-8").splitlines()
    texts = []
    for _ in range(count):
        text: list[str] = []
        while len(text) < words:
            text += random.choice(lines).split()
        texts.append(" ".join(text[:words]))
    return texts


if __name__ == "__main__":
    main()
