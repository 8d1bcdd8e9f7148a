"""`linda augment`: add new rows to a labelled table."""

import sys
from typing import Any

import click

from linda.cli import option_values
from linda.cli.grouped_help import GroupedCommand
from linda.cli.options import (
    FILE,
    SEED,
    TABLE,
    asked_for,
    engine_option,
    gpus_per_worker_option,
    on_option,
    option_name,
    ray_address_option,
    translate_option,
    trigrams_option,
)
from linda.errors import LindaError
from linda.files.textio import check_other_file

# Repeated from the library, so that --help needs no heavy import. A test compares them.
PARTNERS = ("any", "same", "different", "stratified", "nearest")
LABELS = ("interpolated", "sharpened", "predicted", "measured", "hard")
GATES = ("copies", "duplicates", "runaway", "drift")
_CHANGE_ONE = ("eda", "ssmba", "backtranslation")  # methods that do not mix two texts
_WITHOUT_LINDA = ("eda", "backtranslation", "splice", "crossover")  # methods without a LINDA model
FORMATS = ("csv", "tsv", "jsonl", "parquet")
BLOCK_ROWS = 100_000


GROUPS = {
    "Input and output": ("output", "text", "label", "pair", "skip_empty", "only_new", "input_format", "output_format"),
    "Plan": ("per_row", "total", "balance", "partners", "unlabelled", "ratio", "seed", "plan_file", "save_plan"),
    "Texts": ("method", "model", "translate", "trigrams", "engine", "raw_ratio", "protect", "keep", "retries"),
    "Labels": ("multi_label", "labels", "temperature", "teacher", "encoder", "weight"),
    "Execution": ("resume", "restart", "batch_size", "workers"),
    "Large tables": ("block_rows", "shuffle", "block_range", "join", "on", "ray_address", "gpus_per_worker"),
}

EXAMPLES = """\b
Examples:
  One new row per row, from CSV to Parquet:
    linda augment train.csv --output bigger.parquet --text text --label label
  A pair task, with four new rows per row, without the originals:
    linda augment rte.jsonl --output new.jsonl --text premise --pair hypothesis --per-row 4 --only-new
"""

BALANCE_HELP = (
    "Fill up classes, instead of --per-row: without a value, to the size of the largest; to a number of rows (200); to "
    "a share of the largest (0.5); or only some classes (rare=300,other=100). Without a value, put it after IN."
)
PROTECT_HELP = (
    "Words of the parents that a new text must contain: separated by commas, one per line of a .txt file, or a regular "
    "expression. Can be repeated."
)
MULTI_LABEL_HELP = "Rows have several labels: lists of class names, or of one value from 0 to 1 per class."
UNLABELLED_HELP = "Mix rows with these unlabelled texts (.txt, or a table); needs --labels predicted."
OUTPUT_HELP = "Output file, overwritten if it exists; - for standard output; a folder of parts if it ends in /."
RATIO_HELP = "Distribution of the mixing ratio: uniform, beta:0.4, a constant (0.5) or a range (0.2-0.8)."
MODEL_HELP = "LINDA model; for ssmba, also a masked language model.  [default: the embedded model]"
ENCODER_HELP = "Encoder of the fine-tuned teacher and of nearest partners.  [default: all-MiniLM-L6-v2]"
BLOCK_ROWS_HELP = "Rows per block. Rows are mixed and compared within their block."
WEIGHT_HELP = "Training weight of new rows. A value other than 1 adds the column `weight`."


@click.command(cls=GroupedCommand, groups=GROUPS, epilog=EXAMPLES)
@click.argument("source", metavar="IN", type=TABLE)
@click.option("--output", metavar="OUT", type=TABLE, help=OUTPUT_HELP)
@click.option("--text", metavar="COLUMN", default="text", help="Text column.")
@click.option("--label", metavar="COLUMN", default="label", help="Label column: classes or lists of probabilities.")
@click.option("--pair", metavar="COLUMN", help="Second text column of a pair task.")
@click.option("--per-row", default=1, type=click.IntRange(1, 10**8), help="New rows per original row.")
@click.option("--total", type=click.IntRange(1, 10**8), help="New rows in total, instead of --per-row.")
@click.option("--balance", metavar="[ROWS|SHARE|CLASS=ROWS,…]", is_flag=False, flag_value="largest", help=BALANCE_HELP)
@click.option("--only-new", is_flag=True, help="Write the new rows without the originals.")
@click.option("--partners", default="same", type=click.Choice(PARTNERS), help="Which rows may be mixed with a row.")
@click.option("--unlabelled", metavar="FILE", type=FILE, help=UNLABELLED_HELP)
@click.option("--weight", default=1.0, help=WEIGHT_HELP)
@click.option("--ratio", default="uniform", help=RATIO_HELP)
@click.option("--raw-ratio", is_flag=True, help="Use the ratio as given, without calibration, as in the paper.")
@click.option("--seed", default=0, type=SEED, help="Seed of the plan and the texts.")
@click.option("--plan", "plan_file", metavar="FILE", type=FILE, help="Use this plan instead of drawing one.")
@click.option(
    "--save-plan", metavar="FILE", type=FILE, help="Write the plan to a .csv or .jsonl file; - prints its first rows."
)
@click.option("--multi-label", is_flag=True, help=MULTI_LABEL_HELP)
@click.option("--labels", default="interpolated", type=click.Choice(LABELS), help="How new rows are labelled.")
@click.option("--temperature", default=0.5, help="Temperature of sharpened labels; 1 changes nothing.")
@click.option(
    "--teacher", metavar="FOLDER", type=FILE, help="Classifier for predicted labels.  [default: fine-tuned on IN]"
)
@click.option("--encoder", metavar="FOLDER", type=FILE, help=ENCODER_HELP)
@click.option("--method", default="linda", help="linda, eda, ssmba, backtranslation, splice or crossover.")
@click.option("--model", metavar="FOLDER", type=FILE, help=MODEL_HELP)
@translate_option
@trigrams_option
@engine_option
@click.option("--protect", metavar="WORDS|FILE|regex:…", multiple=True, help=PROTECT_HELP)
@click.option("--keep", multiple=True, type=click.Choice(GATES), help="Disable this filter. Can be repeated.")
@click.option("--retries", default=2, type=click.IntRange(0, 1000), help="Attempts to replace a rejected text.")
@click.option("--skip-empty", is_flag=True, help="Skip rows without text instead of raising an error.")
@click.option("--resume", is_flag=True, help="Continue an unfinished run.")
@click.option("--restart", is_flag=True, help="Delete an unfinished run and start over.")
@click.option(
    "--batch-size", default=128, type=click.IntRange(1, 10**6), help="Rows per batch; does not affect results."
)
@click.option("--workers", default=1, type=click.IntRange(1, 256), help="Worker processes; does not affect results.")
@click.option("--block-rows", default=BLOCK_ROWS, type=click.IntRange(1), help=BLOCK_ROWS_HELP)
@click.option("--shuffle", is_flag=True, help="Shuffle the rows, by the seed, before they are cut into blocks.")
@click.option("--block-range", metavar="FIRST:STOP", help="Compute only these blocks, e.g. 0:40; --join writes OUT.")
@click.option("--join", is_flag=True, help="Check that all blocks are computed, and write OUT.")
@on_option
@ray_address_option
@gpus_per_worker_option
@click.option("--input-format", type=click.Choice(FORMATS), help="Format of IN.  [default: by file name]")
@click.option("--output-format", type=click.Choice(FORMATS), help="Format of OUT.  [default: by file name]")
@click.pass_context
def command(
    context: click.Context,
    /,
    source: str,
    output: str | None,
    plan_file: str | None,
    save_plan: str | None,
    keep: tuple[str, ...],
    block_range: str | None,
    on: str,
    ray_address: str | None,
    gpus_per_worker: float,
    input_format: str | None,
    output_format: str | None,
    **settings: Any,
) -> None:
    """Add new rows to the labelled table IN. Each is a text between two of its rows.

    OUT contains the original rows and the new ones. Formats: CSV, TSV, JSON lines (also .gz and .xz) and Parquet. IN
    may be a folder of such files.
    Added columns: label_probs (probabilities of the sorted classes), parent_a and parent_b (row numbers from 0), alpha
    (share of parent_a), method and plan_seed.
    """
    from linda.augmentation import Augmenter
    from linda.augmentation.gates import Gates
    from linda.file_runs.file_pipeline import augment_file
    from linda.planning.plan import Plan

    if output is None and save_plan is None:
        raise LindaError("nothing to do: give --output OUT, or --save-plan FILE")
    run = {name: settings.pop(name) for name in ("resume", "restart", "block_rows", "shuffle", "join")}
    if run["resume"] and run["restart"]:
        raise LindaError("--resume continues an unfinished run, --restart deletes it; give only one of them")
    _check_needed(context)
    if run["shuffle"] and save_plan is not None:
        raise LindaError(
            "a plan refers to rows by their position in the input, which --shuffle changes; leave out --save-plan"
        )
    if save_plan is not None:
        _check_plan_file(save_plan, source, output)
    gates = Gates(**dict.fromkeys(keep, False))
    augmenter = Augmenter(gates=gates, progress=True, **settings)
    plan = None if plan_file is None else Plan.read(plan_file)
    if save_plan is not None:
        drawn = _drawn_plan(augmenter, source, input_format, run["block_rows"]) if plan is None else plan
        _save(drawn, save_plan)
        # A balanced plan is drawn again with the output, because it is extended if texts are rejected.
        plan = plan if settings["balance"] is not None else drawn
    if output is None:
        return
    if on == "ray":
        from linda.file_runs.ray_executor import RayExecutor
        from linda.file_runs.ray_pool import RayPool

        workers = settings["workers"] if "workers" in asked_for(context) else None
        run["executor"] = RayExecutor(RayPool.connect(ray_address, workers, gpus_per_worker))
    try:
        summary = augment_file(
            augmenter,
            source,
            output,
            source_format=input_format,
            output_format=output_format,
            plan=plan,
            block_range=None if block_range is None else option_values.block_range(block_range),
            **run,
            on_note=lambda note: click.echo(f"linda: {note}", err=True),
        )
    except KeyboardInterrupt:
        hint = "" if output == "-" else "; continue with the same command and --resume"
        click.echo(f"linda: interrupted{hint}", err=True)
        sys.exit(130)
    click.echo(str(summary), err=True)


def _check_needed(context: click.Context) -> None:
    """Raise a LindaError for an option that would have no effect."""
    given = context.params
    of_plan = ("per_row", "total", "balance", "partners", "ratio")
    of_mixing = ("partners", "ratio", "raw_ratio")
    has_teacher = given["labels"] == "predicted" and given["teacher"] is None
    for idle, names, reason in (
        (given["plan_file"] is not None, of_plan, "--plan already determines it"),
        (given["unlabelled"] is not None, ("partners",), "with --unlabelled, partners are unlabelled texts"),
        (given["balance"] is not None, ("per_row", "total"), "--balance determines the number of new rows"),
        (given["method"] in _CHANGE_ONE, of_mixing, f"{given['method']} does not mix texts"),
        (given["method"] in _WITHOUT_LINDA, ("model", "engine"), f"{given['method']} does not use a LINDA model"),
        (given["method"] in _WITHOUT_LINDA, ("raw_ratio",), "only linda has a calibrated ratio"),
        (given["labels"] != "predicted", ("teacher",), "only --labels predicted uses it"),
        (given["on"] != "ray", ("ray_address", "gpus_per_worker"), "only --on ray uses it"),
        (given["labels"] != "sharpened", ("temperature",), "only --labels sharpened uses it"),
        (
            not has_teacher and given["partners"] != "nearest",
            ("encoder",),
            "only --partners nearest, and --labels predicted without --teacher, use it",
        ),
    ):
        if idle and (asked := [name for name in names if name in asked_for(context)]):
            raise LindaError(f"{option_name(context, asked[0])} has no effect: {reason}")


def _check_plan_file(file: str, source: str, output: str | None) -> None:
    if file == "-" and output == "-":
        raise LindaError("--save-plan - and --output - would both write to standard output; give one of them a file")
    for other in (source, output):
        if other is not None:
            check_other_file(other, file)


def _drawn_plan(augmenter: Any, source: str, input_format: str | None, block_rows: int) -> Any:
    from linda.file_runs.file_pipeline import draw_table_plan

    if source == "-":
        raise LindaError("--save-plan reads the input twice, but a pipe can be read only once; give a file")
    return draw_table_plan(augmenter, source, input_format, block_rows)


def _save(plan: Any, file: str) -> None:
    if file == "-":
        click.echo(str(plan))
    else:
        plan.save(file)
