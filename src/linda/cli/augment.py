"""`linda augment`: from a labelled table to a bigger, softly labelled one."""

import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from linda.cli.options import FILE, asked_for, engine_option, option_name, translate_option
from linda.errors import LindaError
from linda.files.textio import check_other_file

# The choices stand here too, so that --help needs no heavy import; a test holds them equal.
PARTNERS = ("any", "same", "different", "stratified", "nearest")
LABELS = ("interpolated", "sharpened", "predicted", "measured", "hard")
GATES = ("copies", "duplicates", "runaway", "drift")
_CHANGE_ONE = ("eda", "ssmba", "backtranslation")  # methods that need no partner
FORMATS = ("csv", "tsv", "jsonl", "parquet")


@click.command()
@click.argument("source", metavar="IN", type=FILE)
@click.option(
    "--output", metavar="OUT", type=FILE, help="The file to write, in place of any that is there; - prints it."
)
@click.option("--text", default="text", show_default=True, help="Column with the text.")
@click.option("--label", default="label", show_default=True, help="Column with the label, hard or soft.")
@click.option("--pair", metavar="COLUMN", help="Second text column, of a pair task.")
@click.option(
    "--per-row", default=1, show_default=True, type=click.IntRange(1, 10**8), help="New rows for each original."
)
@click.option("--total", type=click.IntRange(1, 10**8), help="New rows in all, instead of --per-row.")
@click.option("--only-new", is_flag=True, help="Write the new rows without the originals.")
@click.option("--partners", default="same", show_default=True, type=click.Choice(PARTNERS), help="Whom a row may meet.")
@click.option("--weight", default=1.0, show_default=True, help="Of new rows in training; not 1: in a column `weight`.")
@click.option("--ratio", default="uniform", show_default=True, help="uniform, beta:0.4, a constant or a range 0.2-0.8.")
@click.option("--raw-ratio", is_flag=True, help="Mix by the ratio itself, uncalibrated, as in the paper.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**64 - 1), help="Draws plan and texts.")
@click.option("--plan", "plan_file", metavar="FILE", type=FILE, help="Follow this plan instead of drawing one.")
@click.option(
    "--save-plan",
    metavar="FILE",
    type=FILE,
    help="Write the plan (.csv or .jsonl); - shows its first rows. Needs no --output.",
)
@click.option("--labels", default="interpolated", show_default=True, type=click.Choice(LABELS), help="Of new rows.")
@click.option("--temperature", default=0.5, show_default=True, help="T of sharpened labels; 1 changes nothing.")
@click.option(
    "--teacher", metavar="FOLDER", type=FILE, help="Classifier for predicted labels.  [default: one is fine-tuned]"
)
@click.option(
    "--encoder", metavar="FOLDER", type=FILE, help="Of teacher and nearest partners.  [default: all-MiniLM-L6-v2]"
)
@click.option("--method", default="linda", show_default=True, help="linda, eda, ssmba or backtranslation.")
@click.option(
    "--model", metavar="FOLDER", type=FILE, help="Of the method: what `linda train` wrote.  [default: embedded]"
)
@translate_option
@engine_option
@click.option("--keep", multiple=True, type=click.Choice(GATES), help="Open this gate; may be given several times.")
@click.option(
    "--retries", default=2, show_default=True, type=click.IntRange(0, 1000), help="Samples for a dropped row."
)
@click.option("--skip-empty", is_flag=True, help="Leave out rows without text instead of stopping.")
@click.option("--resume", is_flag=True, help="Go on with an unfinished run.")
@click.option("--restart", is_flag=True, help="Forget an unfinished run.")
@click.option(
    "--batch-size", default=128, show_default=True, type=click.IntRange(1, 10**6), help="Never changes a row."
)
@click.option(
    "--workers", default=1, show_default=True, type=click.IntRange(1, 256), help="Processes that write texts."
)
@click.option("--input-format", type=click.Choice(FORMATS), help="Where the name does not tell it.")
@click.option("--output-format", type=click.Choice(FORMATS), help="Where the name does not tell it.")
@click.pass_context
def command(
    context: click.Context,
    /,
    source: str,
    output: str | None,
    plan_file: str | None,
    save_plan: str | None,
    keep: tuple[str, ...],
    resume: bool,
    restart: bool,
    input_format: str | None,
    output_format: str | None,
    **settings: Any,
) -> None:
    """Make the labelled table IN bigger: OUT holds its rows and new ones between them, labelled by distributions.

    \b
    One new row for each, from CSV to Parquet:
      linda augment train.csv --output bigger.parquet --text text --label label
    Pairs of texts, four new rows for each, only the new ones:
      linda augment rte.jsonl --output new.jsonl --text premise --pair hypothesis --per-row 4 --only-new
    As in the paper, texts and soft labels between any two rows:
      linda augment train.csv --output bigger.parquet --partners any --raw-ratio
    Look at the plan first:
      linda augment train.csv --save-plan -
    Go on after a crash:
      linda augment train.csv --output bigger.parquet --resume

    CSV, TSV, JSON lines (also .gz and .xz) and Parquet are told apart by their names. New columns: label_probs (over
    the sorted labels), parent_a and parent_b (row numbers from 0), alpha (the share of parent_a), method, plan_seed.
    """
    from linda.augmentation import Augmenter
    from linda.augmentation.file_run import augment_file
    from linda.augmentation.gates import Gates
    from linda.augmentation.plan import Plan

    if output is None and save_plan is None:
        raise LindaError("nothing to do: give --output OUT, or --save-plan FILE")
    if resume and restart:
        raise LindaError("--resume goes on with an unfinished run, --restart forgets it; give one of them")
    _check_needed(context)
    if save_plan is not None:
        _check_plan_file(save_plan, source, output)
    gates = Gates(**dict.fromkeys(keep, False))
    augmenter = Augmenter(gates=gates, progress=True, **settings)
    plan = None if plan_file is None else Plan.read(plan_file)
    if save_plan is not None:
        plan = _drawn_plan(augmenter, source, input_format) if plan is None else plan
        _save(plan, save_plan)
    if output is None:
        return
    try:
        summary = augment_file(
            augmenter,
            source,
            output,
            source_format=input_format,
            output_format=output_format,
            plan=plan,
            resume=resume,
            restart=restart,
            on_note=lambda note: click.echo(f"linda: {note}", err=True),
        )
    except KeyboardInterrupt:
        way = "nothing is kept of a run into a pipe" if output == "-" else "the same command with --resume goes on"
        click.echo(f"linda: interrupted; {way}", err=True)
        sys.exit(130)
    click.echo(str(summary), err=True)


def _check_needed(context: click.Context) -> None:
    """An option that would do nothing is an error: whoever gives it expects something."""
    given = context.params
    of_plan = ("per_row", "total", "partners", "ratio")
    of_mixing = ("partners", "ratio", "raw_ratio")
    has_teacher = given["labels"] == "predicted" and given["teacher"] is None
    for idle, names, reason in (
        (given["plan_file"] is not None, of_plan, "the plan says it already"),
        (given["method"] in _CHANGE_ONE, of_mixing, f"{given['method']} mixes no two texts"),
        (given["method"] in ("eda", "backtranslation"), ("model", "engine"), f"{given['method']} has no such model"),
        (given["labels"] != "predicted", ("teacher",), "it gives --labels predicted"),
        (given["labels"] != "sharpened", ("temperature",), "it is that of --labels sharpened"),
        (
            not has_teacher and given["partners"] != "nearest",
            ("encoder",),
            "it is that of --partners nearest, and of --labels predicted without a --teacher",
        ),
    ):
        if idle and (asked := [name for name in names if name in asked_for(context)]):
            raise LindaError(f"{option_name(context, asked[0])} would do nothing here: {reason}")


def _check_plan_file(file: str, source: str, output: str | None) -> None:
    if file == "-" and output == "-":
        raise LindaError("--save-plan - and --output - would be one stream; give one of them a file")
    for other in (source, output):
        if other is not None:
            check_other_file(other, file)


def _drawn_plan(augmenter: Any, source: str, input_format: str | None) -> Any:
    from linda.augmentation.file_run import examples_of, input_on_disk, spooled
    from linda.files.tables import find_format

    if source == "-":
        raise LindaError("--save-plan reads the input before the run does, which a pipe cannot; give a file")
    with tempfile.TemporaryDirectory() as folder, input_on_disk(source) as path:
        spool = spooled(augmenter, path, find_format(source, input_format), Path(folder) / "input.arrow")
        return augmenter.plan(examples_of(augmenter, spool, source))


def _save(plan: Any, file: str) -> None:
    if file == "-":
        click.echo(str(plan))
    else:
        plan.save(file)
