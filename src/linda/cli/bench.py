"""`linda bench`: does augmentation help on this data, and which kind?"""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from linda.cli.options import FILE, PATH, asked_for, engine_option, option_name, translate_option
from linda.errors import LindaError, shortened

if TYPE_CHECKING:
    from linda.benchmark.cells import Settings
    from linda.benchmark.paper import Experiment
    from linda.benchmark.protocol import Protocol
    from linda.benchmark.run import Plan
    from linda.benchmark.tasks import TaskSource

_EXPERIMENTS = ("low-resource", "full", "nli", "ood", "labels")


@click.command(context_settings={"show_default": True})
@click.option("--output", required=True, type=PATH, help="Folder of the results. Alone: report anew.")
@click.option("--train", type=PATH, help="Your own training file: CSV, TSV, JSONL or Parquet.")
@click.option("--test", type=PATH, help="Your own test file.")
@click.option("--text", default="text", help="Column of the text.")
@click.option("--label", default="label", help="Column of the label.")
@click.option("--pair", help="Column of the second text of a pair task.")
@click.option("--domain", help="Column of the domain: train on each, test on all.")
@click.option("--paper", type=click.Choice(_EXPERIMENTS), help="One of the paper's experiments.")
@click.option(
    "--profile",
    type=click.Choice(["laptop", "paper"]),
    default="laptop",
    help="laptop: MiniLM, at most 1,000 training (ood: 250 of a domain) and 2,000 test rows. paper: BERT-base, its "
    "rows, and its own LINDA too.",
)
@click.option("--tasks", help="Tasks by name, as trec-coarse,sst2; an unknown name lists them.")
@click.option("--data", type=PATH, help="Folder of tasks (NAME/train.jsonl.gz …) instead of the hub.")
@click.option("--methods", help="As vanilla,eda,linda or linda+partners=same+weight=0.5.")
@click.option("--shots", help="Rows of each class to train on, as 5,10.")
@click.option("--train-size", type=click.IntRange(2, 10**9), help="The most training rows.")
@click.option("--test-size", type=click.IntRange(1, 10**9), help="The most test rows, the same for all.")
@click.option("--small-classes", is_flag=True, help="Classes with fewer rows than shots give what they have.")
@click.option("--seeds", type=click.IntRange(1, 1000), default=5, help="How often rows are drawn and models trained.")
@click.option("--on", type=click.Choice(["test", "validation"]), default="test", help="validation: a part of training.")
@click.option(
    "--encoder", type=FILE, help="Folder or hub name of the encoder to fine-tune; all-MiniLM-L6-v2 by default."
)
@click.option("--learning-rate", help="A number, or search. By default the encoder's own, searched if none is known.")
@click.option("--batch-size", type=click.IntRange(1, 100_000), help="By default 8 with shots, 32 without.")
@click.option("--epochs", type=click.IntRange(1, 10_000), help="By default 30 with shots, 5 without.")
@click.option(
    "--match",
    type=click.Choice(["steps", "epochs"]),
    help="steps (default): all methods train equally long. epochs: more rows, more updates, as in the paper.",
)
@click.option(
    "--max-length",
    type=click.IntRange(8, 100_000),
    help="Tokens of a text that the encoder reads; 256 by default; with --paper 128, or 512 where the "
    "profile is the paper's.",
)
@click.option("--model", type=FILE, help="LINDA model: folder or hub name; the embedded one by default.")
@engine_option
@click.option("--masked-model", type=FILE, help="Masked language model of ssmba; the LINDA model by default.")
@translate_option
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=2,
    help="Cells computed at a time, one thread each; a single one has all threads.",
)
@click.pass_context
def command(context: click.Context, /, output: Path, **given: Any) -> None:
    """Compare augmentation methods: the same rows, seeds and number of updates for each.

    \b
    linda bench --train my.csv --test my_test.csv --shots 10 --methods vanilla,eda,linda --output results
    linda bench --paper low-resource --data tasks --output results

    Every cell (task, method, seed) is a file in OUTPUT/cells; a second run computes only what is missing. The
    report is OUTPUT/report.md, with results.csv and figures beside it.
    """
    from linda.benchmark.methods import parse_method
    from linda.benchmark.report import write_report
    from linda.benchmark.run import check_results_folder, make_grid, run_grid

    check_results_folder(output)
    command_line = _command_line()  # before hours of work, in which files may come and go
    _check_needed(context)
    experiment = _experiment(given)
    methods = [parse_method(name) for name in _listed(given["methods"]) or _default_methods(given, experiment)]
    plan = [(task, _protocols(given, experiment, task.name)) for task in _tasks(given, experiment)]
    if plan:
        settings = _settings(given, experiment)
        cells = make_grid(plan, methods, range(given["seeds"]), settings)  # before a search: it finds what cannot be
        settings = replace(settings, learning_rate=_learning_rate(given, plan, settings, output))
        run_grid(cells, settings, output, given["workers"], command=command_line)
    report = write_report(output)
    click.echo(report.split("\n## ")[0].strip())
    click.echo(f"\nTables and figures: {output / 'report.md'}")


def _check_needed(context: click.Context) -> None:
    """An option that would do nothing is an error: whoever gives it expects something."""
    asked = asked_for(context)
    has_files, has_tasks = bool(asked & {"train", "test"}), bool(asked & {"tasks", "paper"})
    if not has_files and not has_tasks and (idle := sorted(asked - {"output", "workers"})):
        raise LindaError(f"{option_name(context, idle[0])} needs data: --tasks, --paper, or --train and --test")
    if not has_files and (own := sorted(asked & {"text", "label", "pair", "domain"})):
        raise LindaError(
            f"{option_name(context, own[0])} names a column of your own files (--train, --test); tasks know theirs"
        )
    if has_files and "data" in asked:
        raise LindaError("--data is the folder of tasks by name (--tasks, --paper), not of your own files")
    if "profile" in asked and "paper" not in asked:
        raise LindaError("--profile goes with --paper: one of the paper's experiments")


def _experiment(given: dict[str, Any]) -> Experiment | None:
    from linda.benchmark.paper import find_experiment

    return find_experiment(given["paper"], given["profile"]) if given["paper"] else None


def _tasks(given: dict[str, Any], experiment: Experiment | None) -> list[TaskSource]:
    from linda.benchmark.tasks import NamedTask, OwnTask

    names = _listed(given["tasks"]) or (list(experiment.tasks) if experiment else [])
    if given["train"] is None and given["test"] is None:
        return [NamedTask(name, given["data"], given["small_classes"]) for name in names]
    if given["train"] is None or given["test"] is None:
        raise LindaError("your own data needs both --train FILE and --test FILE")
    if names:
        raise LindaError("give your own files (--train, --test) or tasks by name (--tasks, --paper), not both")
    name = given["train"].name.split(".")[0]
    columns = {column: given[column] for column in ("text", "label", "pair", "domain", "small_classes")}
    return [OwnTask(name, given["train"], given["test"], **columns)]


def _default_methods(given: dict[str, Any], experiment: Experiment | None) -> list[str]:
    methods = list(experiment.methods) if experiment else ["vanilla", "eda", "ssmba", "mixup", "linda"]
    return [*methods, "backtranslation"] if given["translate"] else methods


def _protocols(given: dict[str, Any], experiment: Experiment | None, task: str) -> list[Protocol]:
    from linda.benchmark.protocol import Protocol

    shots = _numbers(given["shots"], "--shots")
    if given["train_size"]:
        if shots:
            raise LindaError("give --shots or --train-size, not both")
        return [Protocol(train_size=given["train_size"])]
    if experiment is None:
        return [Protocol(shots=number) for number in shots] or [Protocol()]
    return [Protocol(shots=number) for number in shots or experiment.shots] or [
        Protocol(None, experiment.rows_of(task))
    ]


def _settings(given: dict[str, Any], experiment: Experiment | None) -> Settings:
    """All but the learning rate."""
    from linda.benchmark.cells import Settings
    from linda.benchmark.methods import Models

    there, back = given["translate"] or (None, None)
    preset = {name: getattr(experiment, name) for name in ("encoder", "max_length", "match", "test_size") if experiment}
    chosen = {
        name: given[name]
        for name in ("encoder", "max_length", "match", "test_size", "batch_size", "epochs", "on")
        if given[name] is not None
    }
    models = Models(given["model"], given["masked_model"], there, back, given["engine"])
    return Settings(**{**preset, **chosen}, models=models)


def _learning_rate(given: dict[str, Any], plan: Plan, settings: Settings, output: Path) -> float:
    """As given, or the encoder's own, or searched."""
    from linda.classifier.encoder import known_learning_rate

    rate = given["learning_rate"]
    if rate is None:
        rate = known_learning_rate(settings.encoder) or "search"
    if rate == "search":
        return _searched_rate(plan, settings, output, given["workers"])
    return _positive(rate, "--learning-rate")


def _searched_rate(plan: Plan, settings: Settings, output: Path, workers: int) -> float:
    from linda.benchmark.rate import search_rate

    click.echo("Searching the learning rate, with vanilla on a part of the training rows", err=True)
    accuracy = search_rate(plan, settings, output, workers)
    best = max(accuracy, key=lambda rate: accuracy[rate])
    listed = ", ".join(f"{rate:g}: {found:.1f}" for rate, found in accuracy.items())
    click.echo(f"Accuracy by rate: {listed}; {best:g} is used", err=True)
    return best


def _listed(text: str | None) -> list[str]:
    """What stands between commas, each once."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip())) if text else []


def _numbers(text: str | None, option: str) -> list[int]:
    parts = _listed(text)
    if not all(part.isdecimal() and len(part) < 10 and int(part) > 0 for part in parts):
        raise LindaError(f"{option} is {shortened(text)}; give whole numbers from 1, as 5,10")
    return [int(part) for part in parts]


def _positive(value: Any, option: str) -> float:
    try:
        number = float(value)
        if not 0 < number < 1:
            raise ValueError
    except ValueError:
        raise LindaError(f"{option} is {value!r}; give a number between 0 and 1, or search") from None
    return number


def _command_line() -> str:
    """As it was typed, but with the last part of each path: the rest is of no use on another machine."""
    line = shlex.join(["linda", *map(_shortened, sys.argv[1:], ["", *sys.argv[1:]])])
    return line.encode("utf-8", "backslashreplace").decode()  # the name of a file may be any bytes


def _shortened(argument: str, before: str) -> str:
    option, sign, value = argument.rpartition("=") if argument.startswith("--") else ("", "", argument)
    # Not Path.exists: it fails on a list of methods that is longer than a file name may be.
    is_path = ("\0" not in value and os.path.exists(value)) or "--output" in (before, option)  # noqa: PTH110
    return option + sign + (Path(value).name or value) if is_path else argument
