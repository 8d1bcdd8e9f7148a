"""Checks of the options of `linda bench`: those that would have no effect, or that contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from linda.cli.options import asked_for, option_name
from linda.errors import LindaError

if TYPE_CHECKING:
    from linda.benchmark.recipes import Recipe
    from linda.benchmark.settings import BenchmarkSettings

# With several labels per row there are no rows of one class to draw, and no tuned thresholds.
_ONE_LABEL = ("shots", "imbalance", "rare", "label_noise", "small_classes", "folds", "unlabelled", "tasks", "paper")


def check_needed(context: click.Context) -> None:
    """Raise a LindaError for an option that would have no effect."""
    asked = asked_for(context)
    has_files, has_tasks = bool(asked & {"train", "test"}), bool(asked & {"tasks", "paper"})
    if not has_files and not has_tasks and (idle := sorted(asked - {"output", "workers", "metric", "baseline"})):
        raise LindaError(f"{option_name(context, idle[0])} needs data: --tasks, --paper, or --train and --test")
    if not has_files and (own := sorted(asked & {"text", "label", "pair", "domain"})):
        raise LindaError(f"{option_name(context, own[0])} names a column of your own files; give --train and --test")
    if has_files and "data" in asked:
        raise LindaError("--data is a folder of named tasks (--tasks, --paper), not of your own files")
    if "profile" in asked and "paper" not in asked:
        raise LindaError("--profile has no effect without --paper")
    if context.params["on"] != "ray" and (idle := sorted(asked & {"ray_address", "gpus_per_worker"})):
        raise LindaError(f"{option_name(context, idle[0])} has no effect: only --on ray uses it")
    if "cache" in asked and context.params["on"] == "ray":
        raise LindaError("--cache is a file of this machine, which other machines cannot share; leave it out")
    if "rare" in asked and "imbalance" not in asked:
        raise LindaError("--rare names the rare class of --imbalance, which is missing; give e.g. --imbalance 10:100")


def check_used(context: click.Context, recipes: list[Recipe], settings: BenchmarkSettings) -> None:
    """Raise a LindaError for an option that neither the student nor any method uses."""
    from linda.classifier.students import find_student

    uses_teacher = any(recipe.uses_teacher for recipe in recipes)
    students = {settings.student, settings.teacher_name} if uses_teacher else {settings.student}
    trains = any(find_student(name).uses_learning_rate for name in students)
    uses_unlabelled = any(recipe.uses_unlabelled for recipe in recipes)
    for used, names, reason in (
        (settings.kind.trains_encoder, {"budget"}, f"{settings.student} is not trained in epochs"),
        (trains, {"learning_rate", "batch_size", "epochs"}, "only finetune has it"),
        (
            uses_teacher,
            {"teacher", "teacher_encoder"},
            "no method uses predicted labels (such as eda+labels=predicted)",
        ),
        (uses_unlabelled, {"unlabelled"}, "no method uses unlabelled texts (such as pseudo-label)"),
    ):
        if not used and (idle := sorted(names & asked_for(context))):
            raise LindaError(f"{option_name(context, idle[0])} has no effect: {reason}")


def check_multi_label(context: click.Context) -> None:
    """Raise a LindaError for an option that needs one label per row."""
    from linda.evaluation.metrics import MULTI_LABEL_METRICS

    asked, metric = asked_for(context), context.params["metric"]
    if not {"train", "test"} & asked:
        raise LindaError("--multi-label describes the labels of your own files; give --train and --test")
    if idle := sorted(asked & {*_ONE_LABEL}):
        raise LindaError(
            f"{option_name(context, idle[0])} needs one label per row; leave it out, or leave --multi-label out"
        )
    if metric is not None and metric not in MULTI_LABEL_METRICS:
        known = ", ".join(MULTI_LABEL_METRICS)
        raise LindaError(f"--metric {metric} needs one label per row; with --multi-label choose from {known}")
    if context.params["learning_rate"] == "search":
        raise LindaError("--learning-rate search needs one label per row; give a number, such as 3e-5")
