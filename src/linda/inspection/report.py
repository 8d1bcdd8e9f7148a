"""The figures of one inspection, and the files they are written to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from linda.errors import LindaError
from linda.files.folders import check_output_folder
from linda.files.jsonfile import read_json_object
from linda.files.textio import atomic_writer
from linda.inspection.conditions import ConditionPoint
from linda.inspection.path import GRID, Decoded, Middle, PathPoint, is_monotone, straightness
from linda.inspection.verdict import Requirement, Standard, verdict
from linda.measures.fluency import Perplexity
from linda.measures.pairs import Pair

_EXAMPLES = 5


@dataclass(frozen=True)
class Fluency:
    """Perplexity under an independent language model, of the outputs at α = 0.5 and of what to hold them against."""

    outputs: Perplexity
    real: Perplexity  # the sentences of the pairs
    word_mix: Perplexity  # what cut-and-paste mixup makes of the same pairs at α = 0.5
    shuffled: Perplexity  # the words of the first sentences in random order


@dataclass(frozen=True)
class Inspection:
    """Everything measured on one set of pairs."""

    pairs: list[Pair]
    decoded: Decoded
    calibrated: list[PathPoint]
    raw: list[PathPoint] | None
    conditions: list[ConditionPoint]
    middle: Middle
    fluency: Fluency | None
    real_sentence_ends: float  # of the sentences of the pairs, as is the next
    real_repeating: float

    @property
    def rows_per_second(self) -> float:
        return self.decoded.rows / self.decoded.seconds


def check_report_folder(folder: Path) -> None:
    """Whether a report may be written here: over an earlier one, and over nothing else."""
    check_output_folder(folder)
    names = ("report.json", "report.md", "outputs.jsonl")
    if not any((folder / name).exists() for name in names):
        return
    try:
        is_ours = {"about", "verdict"} <= read_json_object(folder / "report.json").keys()
    except LindaError:
        is_ours = False
    if not is_ours:
        taken = next(name for name in names if (folder / name).exists())
        raise LindaError(f"{folder / taken} is there and is of no inspection; give another --output")


def write_report(inspection: Inspection, folder: Path, about: dict[str, Any], standard: Standard) -> list[Requirement]:
    """`report.json`, `report.md` and `outputs.jsonl` (every text that was written). `about` says what was measured."""
    requirements = verdict(inspection, standard)
    with atomic_writer(folder / "report.json") as file:
        json.dump(_as_json(inspection, about, requirements), file, indent=2, ensure_ascii=False)
        file.write("\n")
    with atomic_writer(folder / "report.md") as file:
        file.write(as_markdown(inspection, about, requirements))
    with atomic_writer(folder / "outputs.jsonl") as file:
        for alpha, outputs in inspection.decoded.texts.items():
            for (a, b), text in zip(inspection.pairs, outputs, strict=True):
                file.write(json.dumps({"a": a, "b": b, "alpha": alpha, "text": text}, ensure_ascii=False) + "\n")
    return requirements


def _as_json(inspection: Inspection, about: dict[str, Any], requirements: Sequence[Requirement]) -> dict[str, Any]:
    return {
        "about": about,
        "verdict": [asdict(requirement) for requirement in requirements],
        "calibrated": _path_json(inspection.calibrated),
        "raw": None if inspection.raw is None else _path_json(inspection.raw),
        "conditions": [asdict(point) | {"holds": point.holds} for point in inspection.conditions],
        "middle": asdict(inspection.middle),
        "perplexity": None if inspection.fluency is None else asdict(inspection.fluency),
        "real_sentences": {
            "sentence_ends": inspection.real_sentence_ends,
            "repeating": inspection.real_repeating,
        },
        "speed": {
            "rows": inspection.decoded.rows,
            "seconds": inspection.decoded.seconds,
            "rows_per_second": inspection.rows_per_second,
        },
    }


def _path_json(points: Sequence[PathPoint]) -> dict[str, Any]:
    return {
        "straightness": straightness(points),
        "monotone": is_monotone(points),
        "points": [asdict(point) for point in points],
    }


def as_markdown(inspection: Inspection, about: dict[str, Any], requirements: Sequence[Requirement]) -> str:
    sections = [
        "# Inspection",
        "\n".join(f"- {name}: {value}" for name, value in about.items())
        + f"\n- speed: {inspection.rows_per_second:.1f} rows a second",
        "## Verdict",
        verdict_table(requirements),
        "## The path, calibrated ratio",
        _path_table(inspection.calibrated),
    ]
    if inspection.raw is not None:
        sections += ["## The path, raw ratio", _path_table(inspection.raw)]
    sections += [
        f"Of the real sentences, {inspection.real_sentence_ends:.3f} end in sentence punctuation and "
        f"{inspection.real_repeating:.4f} repeat themselves.",
        "## The four conditions, raw ratio",
        _conditions_table(inspection.conditions),
        "## Words of the outputs at α=0.5",
        _table(
            ["in a", "in b", "in either", "in neither", "outputs with words of both"],
            [[f"{value:.3f}" for value in asdict(inspection.middle).values()]],
        ),
    ]
    if inspection.fluency is not None:
        sections += ["## Perplexity", _perplexity_table(inspection.fluency)]
    sections += ["## Examples", *_examples(inspection)]
    return "\n\n".join(sections) + "\n"


def verdict_table(requirements: Sequence[Requirement]) -> str:
    marks = {True: "pass", False: "**fail**", None: "–"}
    return _table(
        ["measure", "wanted", "reached", "verdict"],
        [[row.measure, row.wanted, row.reached, marks[row.passed]] for row in requirements],
    )


def _path_table(points: Sequence[PathPoint]) -> str:
    header = [
        "α",
        "mixed",
        "precision against a",
        "against b",
        "share of a",
        "pair deviation",
        "equal to neither",
        "repeat themselves",
        "repeated trigrams",
        "sentence ends",
        "tokens / L̃",
    ]
    return _table(
        header,
        [[f"{point.alpha:g}", *(f"{value:.3f}" for value in list(asdict(point).values())[1:])] for point in points],
    )


def _conditions_table(points: Sequence[ConditionPoint]) -> str:
    return _table(
        ["α", "p(a) > p(b)", "p(b) > p(a)", "log p(a) per token", "log p(b) per token", "p(a) + p(b)"],
        [
            [
                f"{point.alpha:g}",
                f"{point.a_likelier:.3f}",
                f"{point.b_likelier:.3f}",
                f"{point.log_p_a:.3f}",
                f"{point.log_p_b:.3f}",
                f"{point.sum_of_both:.2g}",
            ]
            for point in points
        ],
    )


def _perplexity_table(fluency: Fluency) -> str:
    names = {
        "real sentences": fluency.real,
        "outputs at α=0.5": fluency.outputs,
        "word-level mixes at α=0.5": fluency.word_mix,
        "shuffled words": fluency.shuffled,
    }
    return _table(
        ["texts", "per token", "per word", "per token, against real"],
        [
            [
                name,
                f"{value.per_token:.1f}",
                f"{value.per_word:.1f}",
                f"{value.per_token / fluency.real.per_token:.2f}",
            ]
            for name, value in names.items()
        ],
    )


def _examples(inspection: Inspection) -> list[str]:
    sections = []
    for row, (a, b) in enumerate(inspection.pairs[:_EXAMPLES]):
        rows = [[f"{alpha:g}", inspection.decoded.texts[alpha][row]] for alpha in reversed(GRID)]
        sections.append(_table(["α", "text"], [["a", a], *rows, ["b", b]]))
    return sections


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
