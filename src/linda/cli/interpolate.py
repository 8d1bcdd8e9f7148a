"""`linda interpolate`: the text between two texts."""

import itertools
import json
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from linda.cli.options import FILE, SEED, engine_option
from linda.errors import LindaError, checked_ratio, checked_text
from linda.files.pairfile import PairRow, read_pairs
from linda.files.textio import atomic_writer, check_other_file, checked_target

if TYPE_CHECKING:
    from linda.interpolation import Interpolator

MOST_RATIOS = 10_000  # of one pair

Mixed = tuple[PairRow, float, str]  # the pair, the ratio asked for, the text


@click.command()
@click.argument("a", required=False)
@click.argument("b", required=False)
@click.option("--alpha", metavar="RATIOS", help="Share of A: from 0 to 1, or several with commas.  [default: 0.5]")
@click.option("--ladder", type=click.IntRange(2, MOST_RATIOS), metavar="N", help="N ratios in equal steps from 0 to 1.")
@click.option(
    "--pairs", type=FILE, metavar="FILE", help="Pairs from a TSV, CSV or JSON lines file; - is standard input."
)
@click.option("--output", type=FILE, metavar="FILE", help="Write JSON lines to FILE; it appears when it is whole.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines with a, b, alpha and text.")
@click.option(
    "--n", default=1, show_default=True, help="Candidates for each pair and ratio, the best first (at most 10,000)."
)
@click.option("--raw", is_flag=True, help="Mix by the ratio itself, uncalibrated, as in the paper.")
@click.option("--beams", default=4, show_default=True, help="Width of the beam search, up to 128; 1 is greedy.")
@click.option("--sample", is_flag=True, help="Draw the text at random instead of searching for the likeliest.")
@click.option("--temperature", default=1.0, show_default=True, help="Below 1: likelier words (with --sample).")
@click.option("--top-p", default=1.0, show_default=True, help="Draw from the top of this mass (with --sample).")
@click.option("--seed", default=0, show_default=True, type=SEED, help="The same seed draws the same texts.")
@click.option("--model", type=FILE, metavar="FOLDER", help="A model that `linda train` wrote.  [default: embedded]")
@click.option("--device", default="auto", show_default=True, help="cpu, cuda or cuda:1.")
@engine_option
@click.option(
    "--batch-tokens",
    type=click.IntRange(1, 10**8),
    help="Tokens at once: memory, never the text.  [default: the engine's]",
)
def command(
    a: str | None,
    b: str | None,
    alpha: str | None,
    ladder: int | None,
    pairs: str | None,
    output: str | None,
    as_json: bool,
    model: str | None,
    device: str,
    engine: str,
    raw: bool,
    seed: int,
    batch_tokens: int | None,
    **decoding: Any,
) -> None:
    """Write the text between the texts A and B.

    The ratio alpha is the share of A: 1 gives A, 0 gives B, 0.7 a text that is mostly A.

    \b
    One text, and nothing else on standard output:
      linda interpolate "The film was great." "The food was cold." --alpha 0.7
    The way from B to A in five steps, a ratio and its text per line:
      linda interpolate "The film was great." "The food was cold." --ladder 5
    Ten random draws from half-way, of which some may be alike:
      linda interpolate "The film was great." "The food was cold." --sample --n 10
    A file of pairs, however large, each at two ratios:
      linda interpolate --pairs pairs.tsv --alpha 0.3,0.7 --output mixed.jsonl
    In a pipe:
      cat pairs.jsonl | linda interpolate --pairs - > mixed.jsonl

    A file of pairs has columns a and b, and alpha if its ratios differ (--alpha and --ladder go before it).
    Its texts come as JSON lines, in its order. Texts longer than the model's window are mixed sentence by
    sentence.
    """
    # Whatever is wrong is told before the model is loaded.
    from linda.engines.decoding import Decoding

    ratios = _ratios(alpha, ladder)
    _check_output(output, pairs)
    Decoding(**decoding)
    rows = _pair_rows(a, b, pairs)

    with _destination(output) as file:
        from tqdm import tqdm

        from linda.interpolation import Interpolator

        interpolator = Interpolator.from_pretrained(model, device=device, engine=engine)
        with tqdm(desc=interpolator.engine.name, unit="text", disable=None if pairs is not None else True) as bar:
            settings = {"raw": raw, "batch_tokens": batch_tokens, "on_progress": bar.update, **decoding}
            for pair, ratio, text in _mixed(interpolator, rows, ratios, seed, settings):
                if as_json or output is not None or pairs is not None:
                    values = {"a": pair.a, "b": pair.b, "alpha": ratio, "text": text}
                    file.write(json.dumps(values, ensure_ascii=False) + "\n")
                elif len(ratios) > 1:
                    file.write(f"{ratio:.4g}\t{text}\n")
                else:
                    file.write(f"{text}\n")


def _check_output(output: str | None, pairs: str | None) -> None:
    if output is None:
        return
    if Path(output).suffix.lower() in (".csv", ".tsv", ".parquet"):
        raise LindaError(f"--output {output} would hold JSON lines; let its name end in .jsonl")
    checked_target(output)
    if pairs is not None:
        check_other_file(pairs, output)


def _ratios(alpha: str | None, ladder: int | None) -> list[float]:
    """The ratios that every pair is mixed at; none if neither option says any."""
    if alpha is not None and ladder is not None:
        raise LindaError("--alpha and --ladder both say the ratios; give one of them")
    if ladder is not None:
        return [step / (ladder - 1) for step in range(ladder)]
    parts = [] if alpha is None else alpha.split(",")
    if len(parts) > MOST_RATIOS:
        raise LindaError(f"--alpha has {len(parts):,} ratios; give at most {MOST_RATIOS:,}")
    return [checked_ratio(part.strip(), "--alpha") for part in parts]


def _pair_rows(a: str | None, b: str | None, pairs: str | None) -> Iterator[PairRow]:
    if pairs is None:
        if a is None or b is None:
            raise LindaError("two texts are needed: linda interpolate A B, or --pairs FILE (see --help)")
        return iter([PairRow(checked_text(a, "text A"), checked_text(b, "text B"), alpha=None)])
    if a is not None:
        raise LindaError("give either two texts or --pairs FILE, not both")
    rows = read_pairs(pairs)
    return itertools.chain(list(itertools.islice(rows, 1)), rows)


@contextmanager
def _destination(output: str | None) -> Iterator[TextIO]:
    if output is not None:
        with atomic_writer(output) as file:
            yield file
    else:
        yield sys.stdout
        sys.stdout.flush()  # here a closed pipe is quiet, at the end of the process it is not


def _mixed(
    interpolator: "Interpolator",
    rows: Iterable[PairRow],
    ratios: list[float],
    seed: int,
    settings: dict[str, Any],
) -> Iterator[Mixed]:
    """Every pair at every ratio (its own, or 0.5, where `ratios` is empty), with every candidate."""
    from linda.interpolation.jobs import row_seeds

    under_way: deque[tuple[PairRow, float]] = deque()

    def requests() -> Iterator[tuple[str, str, float, int]]:
        seeds = row_seeds(seed)
        for pair in rows:
            own = 0.5 if pair.alpha is None else pair.alpha
            for ratio in ratios or [own]:
                under_way.append((pair, ratio))
                yield pair.a, pair.b, ratio, next(seeds)

    for candidates in interpolator.mix_stream(requests(), **settings):
        pair, ratio = under_way.popleft()
        for text in candidates:
            yield pair, ratio, text
