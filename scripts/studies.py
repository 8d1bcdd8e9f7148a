"""Computes a study of where augmentation may pay off: several `linda bench` commands, after an estimate of the hours.

    python scripts/studies.py --study imbalance --data tasks --work results [--size small] [--dry-run] [-- options]

A larger size adds tasks, shots and seeds to the same folders of WORK, so nothing is computed twice. With --trigrams
FILE, each method splice… gets a counterpart crossover…. Texts and vectors are kept in WORK/studies.cache, which all
studies share. Run the same command again to compute only what is missing. Options after -- are passed to `linda bench`.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from linda.errors import LindaError
from reproduce import announce

SIZES = ("small", "medium", "full")
_TEACHER_ENCODER = "sentence-transformers/all-mpnet-base-v2"
_CACHE = "studies.cache"
_SPLICE = "splice"

# Long reviews are cut, and long test sets sampled, in all studies.
_SHARED = ["--max-length", "128", "--test-size", "1000"]

_SENTENCES = "trec-coarse,sst2"
_MORE_SENTENCES = "trec-coarse,sst2,sst2_sentences"
_FOUR_TASKS = "trec-coarse,sst2,sst2_sentences,imdb"


@dataclass(frozen=True)
class Part:
    """One `linda bench` command. Parts of one folder have the same student, and different tasks or shots."""

    folder: str
    size: str  # computed at this size only; a larger size has a part that includes it
    options: dict[str, str]

    def arguments(self, data: Path, work: Path, more: Sequence[str]) -> list[str]:
        given = [
            word for name, value in self.options.items() for word in ([f"--{name}", value] if value else [f"--{name}"])
        ]
        places = ["--data", str(data), "--cache", str(work / _CACHE), "--output", str(work / self.folder)]
        return [*given, *_SHARED, *places, *more]

    def with_crossovers(self, trigrams: Path) -> Part:
        """Add a crossover that is ranked with a trigram table for each splice, which is not ranked."""
        methods = self.options["methods"].split(",")
        if not any(_SPLICE in name for name in methods):
            return self
        both = [one for name in methods for one in dict.fromkeys((name, name.replace(_SPLICE, "crossover")))]
        return replace(self, options={**self.options, "methods": ",".join(both), "trigrams": str(trigrams)})


# --- rare classes: the baselines are class weights, oversampling and a tuned threshold ----------------------------


def _imbalance() -> list[Part]:
    balanced = ["eda+balance", "splice+balance", "linda+balance"]
    of_vectors = ["vanilla", "class-weights", "oversample", "smote", *balanced]
    compared = {"metric": "average_precision", "baseline": "oversample", "small-classes": ""}
    all_ratios = "10:50,10:100,10:300,30:150,30:300,30:900"
    parts = []
    for student in ("probe", "tfidf"):
        quick = {"student": student, "methods": ",".join(of_vectors), "seeds": "25", **compared}
        folder = f"imbalance/{student}"
        questions = {"tasks": "trec-coarse", "imbalance": "10:100", "rare": "NUM"}
        reviews = {"tasks": "sst2", "imbalance": "10:100", "rare": "negative"}
        parts += [Part(folder, "small", {**task, **quick}) for task in (questions, reviews)]
        parts += [Part(folder, "medium", {"tasks": _MORE_SENTENCES, "imbalance": "10:100,10:300", **quick})]
        parts += [Part(folder, "full", {"tasks": _FOUR_TASKS, "imbalance": all_ratios, **quick})]
        natural = {"tasks": "womens-clothing,amazon_baby", "imbalance": "natural", "train-size": "300"}
        parts += [Part(f"imbalance/natural-{student}", "full", {**natural, **quick})]
    for student in ("finetune", "setfit"):
        methods = [name for name in of_vectors if name != "smote" or student == "setfit"]
        # Thresholds are tuned on folds, which slow students have only if asked.
        slow = {"student": student, "methods": ",".join(methods), "imbalance": "10:100", "folds": "3", **compared}
        for size, seeds in (("medium", "3"), ("full", "10")):
            if size == "full" or student == "finetune":
                for tasks, rare in (("trec-coarse", "NUM"), ("sst2,sst2_sentences", "negative")):
                    options = {"tasks": tasks, "rare": rare, "seeds": seeds, **slow}
                    parts.append(Part(f"imbalance/{student}", size, options))
    return parts


# --- calibration: the baselines are label smoothing and temperature scaling ----------------------------------------

_BETWEEN_CLASSES = ["mixup", "splice+partners=any+labels=interpolated", "linda-interpolated", "linda-measured"]


def _calibration() -> list[Part]:
    methods = ",".join(["vanilla", "label-smoothing", "temperature", *_BETWEEN_CLASSES])
    compared = {"methods": methods, "metric": "log_loss", "baseline": "label-smoothing"}
    sizes = {
        "small": {"tasks": _SENTENCES, "shots": "10", "seeds": "5"},
        "medium": {"tasks": _MORE_SENTENCES, "shots": "10", "seeds": "10"},
        "full": {"tasks": _FOUR_TASKS, "shots": "10,50", "seeds": "10"},
    }
    return [Part("calibration", size, {**options, **compared}) for size, options in sizes.items()]


# --- wrong labels: the baselines are label smoothing, early stopping and `keep` --------------------------------------


def _noise() -> list[Part]:
    kept = ["linda-interpolated+keep=0.5", "eda+keep=0.5"]
    methods = ",".join(["vanilla", "label-smoothing", "early-stopping", *_BETWEEN_CLASSES, *kept])
    compared = {"methods": methods, "metric": "accuracy", "baseline": "label-smoothing"}
    sizes = {
        "small": {"tasks": "sst2", "shots": "50", "label-noise": "0.2", "seeds": "3"},
        "medium": {"tasks": _SENTENCES, "shots": "50", "label-noise": "0.2,0.4", "seeds": "5"},
        "full": {"tasks": _FOUR_TASKS, "shots": "10,50", "label-noise": "0.1,0.2,0.4", "seeds": "10"},
    }
    return [Part("noise", size, {**options, **compared}) for size, options in sizes.items()]


# --- students: the baseline is training on the originals -------------------------------------------------------------


def _students() -> list[Part]:
    parts = []
    for student in ("probe", "tfidf", "finetune", "setfit"):
        is_quick = student in ("probe", "tfidf")
        methods = ["vanilla", "eda", "ssmba", "splice", "linda", *(["mixup"] if student == "finetune" else [])]
        shared = {"student": student, "methods": ",".join(methods), "metric": "accuracy", "baseline": "vanilla"}
        folder = f"students/{student}"
        if is_quick:
            parts.append(Part(folder, "small", {"tasks": _SENTENCES, "shots": "5,10", "seeds": "25", **shared}))
        seeds = "25" if is_quick else "5"
        tasks = "trec-coarse,trec-fine,sst2" if is_quick else _SENTENCES
        parts.append(Part(folder, "medium", {"tasks": tasks, "shots": "5,10", "seeds": seeds, **shared}))
        full = {"tasks": "trec-coarse,trec-fine,sst2,imdb", "shots": "5,10", "seeds": "25" if is_quick else "10"}
        parts.append(Part(folder, "full", {**full, **shared}))
    return parts


# --- a strong teacher for a small student: the baselines are EDA's texts and none; real texts are the ceiling --------


def _teacher(encoder: str) -> list[Part]:
    made = ["eda", "splice+partners=any", "linda+partners=any", "eda&linda+partners=any"]
    methods = ["vanilla", *(f"{name}+labels=predicted+per_row=8" for name in made), "pseudo-label+per_row=8"]
    shared = {"methods": ",".join(methods), "metric": "accuracy", "baseline": "eda+labels=predicted+per_row=8"}
    shared |= {"student": "tfidf", "teacher": "probe", "teacher-encoder": encoder, "unlabelled": "rest", "shots": "8"}
    sizes = {
        "small": {"tasks": "trec-coarse", "seeds": "25"},
        "medium": {"tasks": _MORE_SENTENCES, "seeds": "25"},
        "full": {"tasks": _FOUR_TASKS, "seeds": "25"},
    }
    return [Part("teacher", size, {**options, **shared}) for size, options in sizes.items()]


# --- unlabelled rows: the baseline is plain pseudo-labelling of the same rows; as many real texts are the ceiling ---


def _unlabelled() -> list[Part]:
    # Four unlabelled rows per row get the teacher's label, and each of these five rows four new ones.
    pseudo = "pseudo_rows=4+labels=predicted+per_row=4"
    augmented = [f"eda+{pseudo}", f"splice+partners=any+{pseudo}", f"linda+partners=any+{pseudo}"]
    as_partners = "linda+partners=unlabelled+labels=predicted+per_row=4"  # what `linda augment --unlabelled` does
    methods = ["vanilla", "pseudo-label+per_row=4", *augmented, as_partners, "pseudo-label+per_row=24"]
    shared = {"methods": ",".join(methods), "metric": "accuracy", "baseline": "pseudo-label+per_row=4"}
    shared |= {"unlabelled": "rest", "folds": "0"}  # classes are balanced: there are no thresholds to tune
    parts = []
    for student in ("probe", "tfidf"):
        sizes = {
            "small": {"tasks": _SENTENCES, "shots": "8", "seeds": "25"},
            "medium": {"tasks": _MORE_SENTENCES, "shots": "8,32", "seeds": "25"},
            "full": {"tasks": _FOUR_TASKS, "shots": "8,32", "seeds": "25"},
        }
        teacher = {"student": student, "teacher": "probe"} if student == "tfidf" else {"student": student}
        parts += [
            Part(f"unlabelled/{student}", size, {**options, **shared, **teacher}) for size, options in sizes.items()
        ]
    return parts


# --- shift of domain and selective prediction: the baseline is vanilla with temperature scaling --------------------


def _shift() -> list[Part]:
    methods = ",".join(["vanilla", "temperature", "label-smoothing", "linda-interpolated"])
    shared = {"tasks": "movies", "methods": methods, "metric": "accuracy_at_80", "baseline": "temperature"}
    sizes = {
        "small": {"shots": "10", "seeds": "5"},
        "medium": {"shots": "10", "seeds": "10"},
        "full": {"shots": "10,50", "seeds": "10"},
    }
    return [Part("shift", size, {**options, **shared}) for size, options in sizes.items()]


STUDIES = ("imbalance", "calibration", "noise", "students", "teacher", "unlabelled", "shift")


def parts_of(
    study: str, size: str, teacher_encoder: str = _TEACHER_ENCODER, trigrams: Path | None = None
) -> list[Part]:
    """Return the commands of a study at a size.

    Args:
        study: One of `STUDIES`.
        size: One of `SIZES`.
        teacher_encoder: Encoder of the teacher in the study `teacher`.
        trigrams: A table built by `linda middles table`; None: no method crossover.

    Returns:
        The parts, in the order in which they are computed.

    Example:
        parts_of("calibration", "small")
    """
    made = {
        "imbalance": _imbalance,
        "calibration": _calibration,
        "noise": _noise,
        "students": _students,
        "teacher": lambda: _teacher(teacher_encoder),
        "unlabelled": _unlabelled,
        "shift": _shift,
    }
    parts = [part for part in made[study]() if part.size == size]
    return parts if trigrams is None else [part.with_crossovers(trigrams) for part in parts]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", choices=STUDIES, required=True, help="study to compute")
    parser.add_argument("--data", type=Path, required=True, help="folder of tasks")
    parser.add_argument("--work", type=Path, required=True, help="folder of the results")
    parser.add_argument("--size", choices=SIZES, default="small", help="size of the study (default: small)")
    parser.add_argument("--teacher-encoder", default=_TEACHER_ENCODER, help="folder or hub name, for the study teacher")
    parser.add_argument("--trigrams", type=Path, help="table of linda middles table: adds a crossover for each splice")
    parser.add_argument("--dry-run", action="store_true", help="print the commands and the estimate only")
    parser.add_argument("options", nargs="*", help="options of linda bench, after --")
    given = parser.parse_args(arguments)
    parts = parts_of(given.study, given.size, given.teacher_encoder, given.trigrams)
    commands = [part.arguments(given.data, given.work, given.options) for part in parts]
    try:
        announce({f"$ linda bench {shlex.join(options)}": options for options in commands})
    except LindaError as error:
        print(f"studies: {error} (docs/reference/bench.md, Tasks, says which files are needed)", file=sys.stderr)
        return 2
    for options in [] if given.dry_run else commands:
        done = subprocess.run([sys.executable, "-m", "linda", "bench", *options], check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
