"""`linda bench`: compare augmentation methods on the user's data or on known tasks."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from linda.cli.bench_checks import check_multi_label, check_needed, check_used
from linda.cli.grouped_help import GroupedCommand
from linda.cli.option_values import imbalance_ratio, learning_rate, listed, share_of_rows, whole_numbers
from linda.cli.options import (
    FILE,
    PATH,
    asked_for,
    engine_option,
    gpus_per_worker_option,
    on_option,
    ray_address_option,
    translate_option,
    trigrams_option,
)
from linda.errors import LindaError

if TYPE_CHECKING:
    from linda.benchmark.grid import CellExecutor, TaskProtocols
    from linda.benchmark.protocol import Protocol
    from linda.benchmark.reporting.paper import Experiment
    from linda.benchmark.settings import BenchmarkSettings
    from linda.benchmark.tasks import TaskSource

_EXPERIMENTS = ("low-resource", "full", "nli", "ood", "labels")

_QUICK_SEEDS, _SLOW_SEEDS = 25, 5


GROUPS = {
    "Output": ("output", "metric", "baseline"),
    "Your own data": ("train", "test", "text", "label", "multi_label", "pair", "domain"),
    "Known tasks": ("tasks", "data", "paper", "profile"),
    "Training rows": ("shots", "train_size", "imbalance", "rare", "label_noise", "small_classes", "unlabelled"),
    "Test": ("test_on", "test_size", "seeds"),
    "Methods": ("methods", "model", "engine", "masked_model", "translate", "trigrams", "teacher", "teacher_encoder"),
    "Student": ("student", "encoder", "learning_rate", "batch_size", "epochs", "budget", "max_length", "folds"),
    "Execution": ("workers", "cache", "dry_run", "on", "ray_address", "gpus_per_worker"),
}

EXAMPLES = """\b
Examples:
  Your own files, with ten rows per class:
    linda bench --train my.csv --test my_test.csv --shots 10 --methods vanilla,eda,linda --output results
  Rare classes, with a quick student:
    linda bench --train my.csv --test my_test.csv --imbalance 10:100 --student tfidf --metric macro_f1_tuned \\
        --methods vanilla,class-weights,oversample,linda+balance --output rare
"""


@click.command(cls=GroupedCommand, groups=GROUPS, epilog=EXAMPLES)
@click.option(
    "--output",
    required=True,
    type=PATH,
    help="Folder of the results. Without data options, only write its report again.",
)
@click.option("--train", type=PATH, help="Training file: CSV, TSV, JSONL or Parquet.")
@click.option("--test", type=PATH, help="Test file.")
@click.option("--text", default="text", help="Column of the text.")
@click.option("--label", default="label", help="Column of the label.")
@click.option(
    "--multi-label",
    is_flag=True,
    help="Rows have several labels: lists of classes, or one value from 0 to 1 per class (JSON in CSV).",
)
@click.option("--pair", help="Column of the second text, for tasks on pairs of texts.")
@click.option("--domain", help="Column of the domain: train on each domain, test on all.")
@click.option("--paper", type=click.Choice(_EXPERIMENTS), help="Run one of the paper's experiments.")
@click.option(
    "--profile",
    type=click.Choice(["laptop", "paper"]),
    default="laptop",
    help="laptop: MiniLM, at most 1,000 training rows (ood: 250 per domain) and 2,000 test rows, equal updates. paper: "
    "BERT-base, all rows, equal epochs, and EDA and SSMBA keep every row.",
)
@click.option("--tasks", help="Tasks by name, e.g. trec-coarse,sst2. An unknown name lists all.")
@click.option("--data", type=PATH, help="Folder of tasks (NAME/train.jsonl.gz, …), instead of the hub.")
@click.option(
    "--methods",
    help="Methods with settings, e.g. vanilla,eda,linda+balance+weight=0.5.  [default: vanilla,eda,ssmba,mixup,linda]",
)
@click.option("--shots", help="Training rows per class, e.g. 5,10.  [default: all rows]")
@click.option("--train-size", type=click.IntRange(2, 10**9), help="Maximum number of training rows.")
@click.option(
    "--imbalance",
    help="Rows of a rare class and of every other class, e.g. 10:100,10:300; or natural: keep the class shares of the "
    "data.",
)
@click.option("--rare", help="The rare class of --imbalance; by default each class in turn.")
@click.option("--label-noise", help="Share of training rows that get a wrong label, e.g. 0.2 or 0,0.1,0.2.")
@click.option("--test-size", type=click.IntRange(1, 10**9), help="Maximum number of test rows, the same rows for all.")
@click.option("--small-classes", is_flag=True, help="Accept classes with fewer rows than requested.")
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    help="Number of draws of training rows.  [default: 25 if training takes seconds; 5 for finetune and setfit]",
)
@click.option(
    "--test-on",
    type=click.Choice(["test", "validation"]),
    default="test",
    help="Test on the test set, or on a part of the training set to choose settings.",
)
@click.option(
    "--metric",
    help="Metric that ranks the methods: accuracy, macro_f1, balanced_accuracy, auc, average_precision, log_loss, "
    "brier, ece, accuracy_at_80, error_auroc; with _tuned for a tuned threshold (macro_f1_tuned); of a rare class "
    "recall:CLASS, precision:CLASS.  [default: accuracy; average_precision with --multi-label]",
)
@click.option("--baseline", default="vanilla", help="Method that the others are compared with.")
@click.option(
    "--student",
    default="finetune",
    help="Classifier to train: finetune, probe (logistic regression on vectors of the encoder), setfit, tfidf, or a "
    "scikit-learn pipeline as module:attribute.",
)
@click.option(
    "--folds",
    type=click.IntRange(0, 100),
    help="Folds of the training rows on which thresholds and temperatures are tuned; 0: none.  [default: 5 if training "
    "takes seconds; for finetune and setfit 3 for temperatures, 0 for thresholds]",
)
@click.option("--encoder", type=FILE, help="Folder or hub name of the student's encoder.  [default: all-MiniLM-L6-v2]")
@click.option("--teacher", help="Student that predicts labels of new texts.  [default: the same as --student]")
@click.option("--teacher-encoder", type=FILE, help="Encoder of the teacher.  [default: the same as --encoder]")
@click.option(
    "--unlabelled",
    help="File of texts without labels, or rest: the training rows that are not drawn. For pseudo-label and for "
    "partners=unlabelled.",
)
@click.option(
    "--learning-rate",
    help="Learning rate of finetune: a number, or search.  [default: 3e-5 in the profile paper; the known rate of the "
    "encoder, else search]",
)
@click.option(
    "--batch-size",
    type=click.IntRange(1, 100_000),
    help="Rows per update.  [default: 8 with few rows per class, else 32]",
)
@click.option(
    "--epochs",
    type=click.IntRange(1, 10_000),
    help="Epochs over the original rows.  [default: 30 with few rows per class, else 5]",
)
@click.option(
    "--budget",
    type=click.Choice(["updates", "epochs"]),
    help="updates: the same number of updates for all methods. epochs: the same number of epochs, so that more rows "
    "mean more updates, as in the paper.  [default: updates; epochs in the profile paper]",
)
@click.option(
    "--max-length",
    type=click.IntRange(8, 100_000),
    help="Tokens of a text that the encoder reads.  [default: 256; with --paper 128, or 512 in its profile paper]",
)
@click.option("--model", type=FILE, help="LINDA model: folder or hub name.  [default: the embedded model]")
@engine_option
@click.option("--masked-model", type=FILE, help="Masked language model of ssmba.  [default: the LINDA model]")
@translate_option
@trigrams_option
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=2,
    help="Cells to compute at the same time, on one thread each; a single worker uses all threads. On Ray, the "
    "default fills the cluster.",
)
@click.option(
    "--cache",
    type=FILE,
    help="Cache file of generated texts and sentence vectors, for runs with other students, labels or shots.",
)
@click.option("--dry-run", is_flag=True, help="Only print how many cells are missing, and how long they would take.")
@on_option
@ray_address_option
@gpus_per_worker_option
@click.pass_context
def command(context: click.Context, /, output: Path, **given: Any) -> float | None:
    """Compare augmentation methods on the same rows, seeds and number of updates.

    Every cell (task, method, seed) is a file in OUTPUT/cells; a second run computes only what is missing. The report
    is OUTPUT/report.md, with results.csv and figures beside it.
    """
    from linda.benchmark.cells import read_cells
    from linda.benchmark.estimate import estimated_hours
    from linda.benchmark.grid import CELLS, check_results_folder, make_grid, missing_cells, run_grid
    from linda.benchmark.recipes import parse_recipe
    from linda.benchmark.reporting.paper import find_experiment
    from linda.benchmark.reporting.report import write_report
    from linda.benchmark.reporting.results import check_will_be_shown
    from linda.evaluation.metrics import find_metric

    check_results_folder(output)
    command_line = _command_line()  # now, because files may change during the run
    check_needed(context)
    if given["metric"] is not None:
        find_metric(given["metric"])
    if given["multi_label"]:
        check_multi_label(context)
    experiment = find_experiment(given["paper"], given["profile"]) if given["paper"] else None
    if experiment is not None and "engine" not in asked_for(context):
        given["engine"] = experiment.engine
    tasks = [(task, _protocols(given, experiment, task.name)) for task in _tasks(given, experiment)]
    if tasks:
        settings = _settings(given, experiment)
        names = listed(given["methods"]) or _default_methods(given, experiment, settings)
        as_published = experiment is not None and experiment.as_published
        recipes = [parse_recipe(name, as_published) for name in names]
        # Before the search for a learning rate, because this finds what cannot be computed.
        seeds = given["seeds"] or (_SLOW_SEEDS if settings.kind.trains_encoder else _QUICK_SEEDS)
        cells = make_grid(tasks, recipes, range(seeds), settings)
        check_used(context, recipes, settings)
        check_will_be_shown(cells, read_cells(output / CELLS), settings, given["metric"], given["baseline"])
        if as_published:
            for line in settings.models.described({str(source) for recipe in recipes for source in recipe.sources}):
                click.echo(line, err=True)
        if given["dry_run"]:
            hours, missing = estimated_hours(cells, settings, output, given["workers"]), missing_cells(cells, output)
            time = f"about {hours:,.1f} hours on {given['workers']} CPU core{'s' * (given['workers'] > 1)}"
            click.echo(f"{len(missing):,} of {len(cells):,} cells are missing: {time}")
            return hours
        executor = _executor(context)
        if settings.kind.uses_learning_rate:
            rate = _learning_rate(given, experiment, tasks, settings, output, executor)
            settings = replace(settings, learning_rate=rate)
        run_grid(cells, settings, output, given["workers"], command=command_line, executor=executor)
    report = write_report(output, given["metric"], given["baseline"])
    click.echo(report.split("\n## ")[0].strip())
    click.echo(f"\nTables and figures: {output / 'report.md'}")
    return None


def _tasks(given: dict[str, Any], experiment: Experiment | None) -> list[TaskSource]:
    from linda.benchmark.tasks import NamedTask, OwnTask

    names = listed(given["tasks"]) or (list(experiment.tasks) if experiment else [])
    if given["train"] is None and given["test"] is None:
        return [NamedTask(name, given["data"], given["small_classes"]) for name in names]
    if given["train"] is None or given["test"] is None:
        raise LindaError("your own data needs both --train FILE and --test FILE")
    if names:
        raise LindaError("give your own files (--train, --test) or tasks by name (--tasks, --paper), not both")
    name = given["train"].name.split(".")[0]
    columns = {column: given[column] for column in ("text", "label", "multi_label", "pair", "domain", "small_classes")}
    return [OwnTask(name, given["train"], given["test"], **columns)]


def _default_methods(given: dict[str, Any], experiment: Experiment | None, settings: BenchmarkSettings) -> list[str]:
    methods = list(experiment.methods) if experiment else ["vanilla", "eda", "ssmba", "mixup", "linda"]
    if not settings.kind.mixes_vectors:
        methods.remove("mixup")
    return [*methods, "backtranslation"] if given["translate"] else methods


def _protocols(given: dict[str, Any], experiment: Experiment | None, task: str) -> list[Protocol]:
    noises = [share_of_rows(part, "--label-noise") for part in listed(given["label_noise"])] or [0.0]
    return [replace(draw, label_noise=noise) for draw in _draws(given, experiment, task) for noise in noises]


def _draws(given: dict[str, Any], experiment: Experiment | None, task: str) -> list[Protocol]:
    from linda.benchmark.protocol import NATURAL, Protocol

    shots = whole_numbers(given["shots"], "--shots")
    imbalance = listed(given["imbalance"])
    if given["train_size"] and shots:
        raise LindaError("give --shots or --train-size, not both")
    if shots and imbalance:
        raise LindaError("give --shots or --imbalance, not both")
    if NATURAL in imbalance:
        if len(imbalance) > 1 or given["rare"]:
            raise LindaError("--imbalance natural keeps the class shares of the data; give no ratio and no --rare")
        return [Protocol(train_size=given["train_size"], is_natural=True)]
    if imbalance:
        if given["train_size"]:
            raise LindaError("--imbalance 10:100 determines the number of rows; leave --train-size out")
        return [Protocol(imbalance=imbalance_ratio(part), rare=given["rare"]) for part in imbalance]
    if given["train_size"]:
        return [Protocol(train_size=given["train_size"])]
    if shots or experiment is None:
        return [Protocol(shots=number) for number in shots] or [Protocol()]
    return experiment.draws(task)


def _settings(given: dict[str, Any], experiment: Experiment | None) -> BenchmarkSettings:
    """All but the learning rate."""
    from linda.benchmark.models import Models
    from linda.benchmark.settings import BenchmarkSettings

    there, back = given["translate"] or (None, None)
    of_experiment = ["encoder", "max_length", "budget", "test_size"]
    preset = {name: getattr(experiment, name) for name in of_experiment if experiment}
    names = [*of_experiment, "batch_size", "epochs", "student", "folds"]
    names += ["teacher", "teacher_encoder", "unlabelled", "text", "label", "cache"]
    chosen = {name: given[name] for name in names if given[name] is not None}
    models = Models(given["model"], given["masked_model"], there, back, given["trigrams"], given["engine"])
    if given["multi_label"]:
        chosen["folds"] = 0  # there are no thresholds to tune
    return BenchmarkSettings(**{**preset, **chosen}, on=given["test_on"], models=models)


def _executor(context: click.Context) -> CellExecutor | None:
    given = context.params
    if given["on"] == "local":
        return None
    from linda.benchmark.ray_cells import RayCells
    from linda.file_runs.ray_pool import RayPool

    workers = given["workers"] if "workers" in asked_for(context) else None
    return RayCells(RayPool.connect(given["ray_address"], workers, given["gpus_per_worker"]))


def _learning_rate(
    given: dict[str, Any],
    experiment: Experiment | None,
    tasks: TaskProtocols,
    settings: BenchmarkSettings,
    output: Path,
    executor: CellExecutor | None,
) -> float:
    """Return the rate that is given, else that of the paper, else the one known for the encoder; else search for it."""
    from linda.benchmark.learning_rate import search_rate
    from linda.classifier.encoder import known_learning_rate

    rate = given["learning_rate"]
    if rate is None:
        of_paper = experiment.learning_rate if experiment else None
        rate = of_paper or known_learning_rate(settings.encoder) or "search"
    if rate == "search" and given["multi_label"]:
        raise LindaError("no learning rate is known for this encoder; give one, such as --learning-rate 3e-5")
    if rate != "search":
        return learning_rate(rate, "--learning-rate")
    click.echo("Searching for the learning rate, with vanilla on a part of the training rows", err=True)
    accuracy = search_rate(tasks, settings, output, given["workers"], executor=executor)
    best = max(accuracy, key=lambda rate: accuracy[rate])
    found = ", ".join(f"{rate:g}: {score:.1f}" for rate, score in accuracy.items())
    click.echo(f"Accuracy by rate: {found}; using {best:g}", err=True)
    return best


def _command_line() -> str:
    """Return the command as typed, with only the last part of each path: the rest differs between machines."""
    return shlex.join(["linda", *map(_shortened, sys.argv[1:], ["", *sys.argv[1:]])])


def _shortened(argument: str, before: str) -> str:
    option, sign, value = argument.rpartition("=") if argument.startswith("--") else ("", "", argument)
    is_output = bool({before, option} & {"--output", "--cache"})  # may not exist yet
    # Not Path.exists: it fails on a list of methods that is longer than a file name may be.
    is_path = is_output or ("\0" not in value and os.path.exists(value))  # noqa: PTH110
    return option + sign + (Path(value).name or value) if is_path else argument
