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

from linda.cli.grouped_help import GroupedCommand
from linda.cli.options import FILE, SEED, engine_option
from linda.errors import LindaError, checked_ratio, checked_text
from linda.files.pairfile import PairRow, read_pairs
from linda.files.textio import atomic_writer, check_other_file, checked_target

if TYPE_CHECKING:
    from linda.interpolation import Interpolator

MOST_RATIOS = 10_000  # of one pair

Mixed = tuple[PairRow, float, str]  # the pair, the ratio asked for, the text


GROUPS = {
    "Ratio": ("alpha", "ladder", "raw"),
    "Input and output": ("pairs", "output", "as_json"),
    "Candidates and sampling": ("n", "beams", "sample", "temperature", "top_p", "seed"),
    "Model and execution": ("model", "device", "engine", "batch_tokens"),
}

EXAMPLES = """\b
Examples:
  The path from B to A in five steps, a ratio and a text per line:
    linda interpolate "The film was great." "The food was cold." --ladder 5
  A file of pairs, each at two ratios:
    linda interpolate --pairs pairs.tsv --alpha 0.3,0.7 --output mixed.jsonl
"""

ALPHA_HELP = "Share of A, from 0 to 1; several separated by commas.  [default: 0.5]"
PAIRS_HELP = "Read pairs from a TSV, CSV or JSON lines file with columns a and b; - for standard input."
N_HELP = "Candidates per pair and ratio, best first (at most 10,000)."
TOP_P_HELP = "Nucleus sampling threshold (with --sample)."
TEMPERATURE_HELP = "Sampling temperature; lower values favour likely words (with --sample)."
BATCH_TOKENS_HELP = "Maximum tokens per batch; affects memory, not results.  [default: chosen by the engine]"


@click.command(cls=GroupedCommand, groups=GROUPS, epilog=EXAMPLES)
@click.argument("a", required=False)
@click.argument("b", required=False)
@click.option("--alpha", metavar="RATIOS", help=ALPHA_HELP)
@click.option("--ladder", type=click.IntRange(2, MOST_RATIOS), metavar="N", help="Use N evenly spaced ratios, 0 to 1.")
@click.option("--pairs", type=FILE, metavar="FILE", help=PAIRS_HELP)
@click.option("--output", type=FILE, metavar="FILE", help="Write JSON lines to FILE, which appears when complete.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines with a, b, alpha and text.")
@click.option("--n", default=1, help=N_HELP)
@click.option("--raw", is_flag=True, help="Mix by the ratio itself, without calibration, as in the paper.")
@click.option("--beams", default=4, help="Beam width, up to 128; 1 is greedy decoding.")
@click.option("--sample", is_flag=True, help="Sample instead of searching for the most likely text.")
@click.option("--temperature", default=1.0, help=TEMPERATURE_HELP)
@click.option("--top-p", default=1.0, help=TOP_P_HELP)
@click.option("--seed", default=0, type=SEED, help="Seed of sampling.")
@click.option("--model", type=FILE, metavar="FOLDER", help="Model written by `linda train`.  [default: embedded]")
@click.option("--device", default="auto", help="Device: cpu, cuda or cuda:1.")
@engine_option
@click.option("--batch-tokens", type=click.IntRange(1, 10**8), help=BATCH_TOKENS_HELP)
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

    The ratio alpha is the share of A: 1 gives A, 0 gives B, 0.7 gives a text that is mostly A. With a single ratio,
    only the text is printed.

    A file of pairs may have a column alpha; --alpha and --ladder override it. Results are JSON lines in the order of
    the file. Texts longer than the model's window are mixed sentence by sentence.
    """
    # Mistakes are reported before the model is loaded.
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
        raise LindaError(f"--output {output} is written as JSON lines; use a name that ends in .jsonl")
    checked_target(output)
    if pairs is not None:
        check_other_file(pairs, output)


def _ratios(alpha: str | None, ladder: int | None) -> list[float]:
    """The ratios that every pair is mixed at; none if neither option says any."""
    if alpha is not None and ladder is not None:
        raise LindaError("give either --alpha or --ladder, not both")
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
