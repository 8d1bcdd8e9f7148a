"""`linda interpolate`: the text between two or more texts."""

import itertools
import json
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from linda.cli.grouped_help import GroupedCommand
from linda.cli.options import FILE, SEED, engine_option
from linda.errors import LindaError, checked_ratio, checked_text, checked_weights
from linda.files.pairfile import PairLine, read_pairs
from linda.files.textio import atomic_writer, check_other_file, checked_target

if TYPE_CHECKING:
    from linda.interpolation import Interpolator
    from linda.interpolation.rows import Row

MAX_RATIOS = 10_000  # of one pair

Request = tuple["Row", dict[str, Any]]  # the row to mix, and the fields to print with the result


GROUPS = {
    "Ratio": ("alpha", "ladder", "weights", "raw"),
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
WEIGHTS_HELP = "Share of each text, such as 0.5,0.3,0.2; only the ratios matter.  [default: equal]"
PAIRS_HELP = "Read pairs from a TSV, CSV or JSON lines file with columns a and b; - for standard input."
OUTPUT_HELP = "Write JSON lines to FILE, created when complete; - for standard output."
N_HELP = "Candidates per pair and ratio, best first (at most 10,000)."
TOP_P_HELP = "Nucleus sampling threshold (with --sample)."
TEMPERATURE_HELP = "Sampling temperature; lower values favour likely words (with --sample)."
BATCH_TOKENS_HELP = "Maximum tokens per batch; affects memory, not results.  [default: chosen by the engine]"


@click.command(cls=GroupedCommand, groups=GROUPS, epilog=EXAMPLES)
@click.argument("a", required=False)
@click.argument("b", required=False)
@click.argument("more", nargs=-1, metavar="[C]...")
@click.option("--alpha", metavar="RATIOS", help=ALPHA_HELP)
@click.option("--ladder", type=click.IntRange(2, MAX_RATIOS), metavar="N", help="Use N evenly spaced ratios, 0 to 1.")
@click.option("--weights", metavar="NUMBERS", help=WEIGHTS_HELP)
@click.option("--pairs", type=FILE, metavar="FILE", help=PAIRS_HELP)
@click.option("--output", type=FILE, metavar="FILE", help=OUTPUT_HELP)
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON lines with the texts, the ratio or weights, and the result."
)
@click.option("--n", default=1, help=N_HELP)
@click.option("--raw", is_flag=True, help="Use the ratio as given, without calibration, as in the paper.")
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
    more: tuple[str, ...],
    alpha: str | None,
    ladder: int | None,
    weights: str | None,
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
    """Write the text between the texts A and B, or between three or more texts.

    The ratio alpha is the share of A: 1 gives A, 0 gives B, 0.7 gives a text that is mostly A. With a single ratio,
    only the text is printed. Three or more texts have weights instead.

    A file of pairs may have a column alpha; --alpha and --ladder override it. Results are JSON lines in the order of
    the file. Texts longer than the model's window are mixed sentence by sentence.
    """
    # Options are checked before the model is loaded.
    from linda.engines.decoding import Decoding

    if output == "-":
        output, as_json = None, True
    ratios = _ratios(alpha, ladder)
    _check_output(output, pairs)
    Decoding(**decoding)
    if more or weights is not None:
        if any((alpha, ladder, pairs)):
            raise LindaError("--alpha, --ladder and --pairs are for two texts; use --weights for three or more")
        requests = _request_of_texts([a, b, *more], weights, seed)
    else:
        requests = _requests_of_pairs(_pair_rows(a, b, pairs), ratios, seed)

    with _destination(output) as file:
        from tqdm import tqdm

        from linda.interpolation import Interpolator

        interpolator = Interpolator.from_pretrained(model, device=device, engine=engine)
        with tqdm(desc=interpolator.engine.name, unit="text", disable=None if pairs is not None else True) as bar:
            settings = {"raw": raw, "batch_tokens": batch_tokens, "on_progress": bar.update, **decoding}
            for fields, text in _mixed(interpolator, requests, settings):
                if as_json or output is not None or pairs is not None:
                    file.write(json.dumps({**fields, "text": text}, ensure_ascii=False) + "\n")
                elif len(ratios) > 1:
                    file.write(f"{fields['alpha']:.4g}\t{text}\n")
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
    """Return the ratios for every pair; none if neither option is given."""
    if alpha is not None and ladder is not None:
        raise LindaError("give either --alpha or --ladder, not both")
    if ladder is not None:
        return [step / (ladder - 1) for step in range(ladder)]
    parts = [] if alpha is None else alpha.split(",")
    if len(parts) > MAX_RATIOS:
        raise LindaError(f"--alpha has {len(parts):,} ratios; give at most {MAX_RATIOS:,}")
    return [checked_ratio(part.strip(), "--alpha") for part in parts]


def _pair_rows(a: str | None, b: str | None, pairs: str | None) -> Iterator[PairLine]:
    if pairs is None:
        if a is None or b is None:
            raise LindaError("give two texts, as in linda interpolate A B, or --pairs FILE (see --help)")
        return iter([PairLine(checked_text(a, "text A"), checked_text(b, "text B"), alpha=None)])
    if a is not None:
        raise LindaError("give either two texts or --pairs FILE, not both")
    rows = read_pairs(pairs)
    return itertools.chain(list(itertools.islice(rows, 1)), rows)


def _requests_of_pairs(rows: Iterable[PairLine], ratios: list[float], seed: int) -> Iterator[Request]:
    """Yield every pair at every ratio; without ratios, at its own or 0.5."""
    from linda.interpolation.rows import row_seeds

    seeds = row_seeds(seed)
    for pair in rows:
        own = 0.5 if pair.alpha is None else pair.alpha
        for ratio in ratios or [own]:
            yield (pair.a, pair.b, ratio, next(seeds)), {"a": pair.a, "b": pair.b, "alpha": ratio}


def _request_of_texts(texts: Sequence[str | None], weights: str | None, seed: int) -> Iterator[Request]:
    """Return the request to mix all texts."""
    from linda.interpolation.rows import row_seeds

    checked = [checked_text(text, f"text {number}") for number, text in enumerate(texts, start=1) if text is not None]
    numbers = [1.0] * len(checked) if weights is None else [_number(part.strip()) for part in weights.split(",")]
    shares = checked_weights(numbers, len(checked))
    return iter([((checked, shares, next(row_seeds(seed))), {"texts": checked, "weights": shares})])


def _number(part: str) -> float:
    try:
        return float(part)
    except ValueError:
        raise LindaError(f"--weights has {part!r}, not a number; give one per text, such as 0.5,0.3,0.2") from None


@contextmanager
def _destination(output: str | None) -> Iterator[TextIO]:
    if output is not None:
        with atomic_writer(output) as file:
            yield file
    else:
        yield sys.stdout
        sys.stdout.flush()  # a closed pipe is handled here; at the end of the process, Python would print an error


def _mixed(
    interpolator: "Interpolator", requests: Iterable[Request], settings: dict[str, Any]
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield every candidate of every request, with the fields to print."""
    pending: deque[dict[str, Any]] = deque()

    def rows() -> Iterator["Row"]:
        for row, fields in requests:
            pending.append(fields)
            yield row

    for candidates in interpolator.mix_stream(rows(), **settings):
        fields = pending.popleft()
        for text in candidates:
            yield fields, text
