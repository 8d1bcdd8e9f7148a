"""The results of an inspection, and the files they are written to."""

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
from linda.inspection.conditions import ATTENTION, STATES, ConditionPoint
from linda.inspection.fluency import OUTPUTS, Fluency
from linda.inspection.path import GRID, Decoded, MeasuredPath, PathPoint
from linda.inspection.references import CROSSOVER, RERANKED, SHUFFLED, SPLICE, WORD_MIX
from linda.inspection.verdict import Requirement, Standard, verdict
from linda.measures.fluency import Perplexity
from linda.measures.pairs import Pair

_EXAMPLES = 5

CONDITIONS_TITLES = {STATES: "states are added, as in the paper", ATTENTION: "attention is mixed"}
REFERENCE_TITLES = {
    SPLICE: "naive splice",
    CROSSOVER: "best crossover (trigrams)",
    RERANKED: "best crossover (chosen by the language model that judges)",
    WORD_MIX: "word-level mix",
    SHUFFLED: "shuffled words of the splice",
}


@dataclass(frozen=True)
class Inspection:
    """Everything that was measured on one set of pairs."""

    pairs: list[Pair]
    decoded: Decoded
    calibrated: MeasuredPath
    raw: MeasuredPath | None
    conditions: dict[str, list[ConditionPoint]]  # by mixing: states, attention
    fluency: Fluency | None
    real_sentence_ends: float  # share of the real sentences that end in sentence punctuation
    real_repeating: float  # share of the real sentences that repeat themselves

    @property
    def rows_per_second(self) -> float:
        """Outputs per second, without the time to load the model."""
        return self.decoded.rows / self.decoded.seconds


def check_report_folder(folder: Path) -> None:
    """Raise an error if the folder has files with the names of a report that are not an earlier report."""
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
        raise LindaError(f"{folder / taken} already exists and is not from an inspection; give another --output")


def write_inspection(
    inspection: Inspection, folder: Path, about: dict[str, Any], standard: Standard
) -> list[Requirement]:
    """Write `report.json` (all measures), `report.md` and `outputs.jsonl` (all outputs).

    Args:
        inspection: The measurements.
        folder: Folder to write to, which must exist.
        about: Description of model and data, for the head of the report.
        standard: Bounds of the verdict.

    Returns:
        The verdict.

    Example:
        >>> write_inspection(inspection, Path("report"), {"model": "embedded"}, STANDARDS["in-domain"])
    """
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
        "conditions": {
            mixing: [asdict(point) | {"holds": point.holds} for point in points]
            for mixing, points in inspection.conditions.items()
        },
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


def _path_json(path: MeasuredPath) -> dict[str, Any]:
    return {
        "straightness": path.straightness,
        "monotone": path.is_monotone,
        "aim": path.aim,
        "length_fits": path.length_fits,
        "largest_step": path.largest_step,
        "points": [asdict(point) for point in path.points],
    }


def as_markdown(inspection: Inspection, about: dict[str, Any], requirements: Sequence[Requirement]) -> str:
    """Format the text of `report.md`."""
    sections = [
        "# Inspection",
        "\n".join(f"- {name}: {value}" for name, value in about.items())
        + f"\n- speed: {inspection.rows_per_second:.1f} texts per second",
        "## Verdict",
        verdict_table(requirements),
        "## The path, calibrated ratio",
        *_path_sections(inspection.calibrated),
    ]
    if inspection.raw is not None:
        sections += ["## The path, raw ratio", *_path_sections(inspection.raw)]
    sections.append(
        f"Of the real sentences, {inspection.real_sentence_ends:.3f} end in sentence punctuation and "
        f"{inspection.real_repeating:.4f} repeat themselves."
    )
    if inspection.fluency is not None:
        sections += ["## Fluency", *_fluency_sections(inspection.fluency)]
    for mixing, points in inspection.conditions.items():
        sections += [f"## The four conditions, raw ratio: {CONDITIONS_TITLES[mixing]}", _conditions_table(points)]
    sections += ["## Examples", *_examples(inspection)]
    return "\n\n".join(sections) + "\n"


def verdict_table(requirements: Sequence[Requirement]) -> str:
    """Format the verdict as a Markdown table."""
    marks = {True: "pass", False: "**fail**", None: "–"}
    return markdown_table(
        ["measure", "wanted", "reached", "verdict"],
        [[row.measure, row.wanted, row.reached, marks[row.passed]] for row in requirements],
    )


_WORD_COLUMNS = {
    "mixed": "mixed",
    "precision_a": "precision against a",
    "precision_b": "against b",
    "share_of_a": "share of a",
    "aim": "aim",
    "words_found": "words found in a or b",
    "content_of_both": "content words of both",
    "faithfulness": "faithfulness",
    "new": "equal to neither",
}
_FORM_COLUMNS = {
    "length_fits": "length within [0.75, 1.33]·L̃",
    "length": "tokens / L̃",
    "repeating": "repeat themselves",
    "repetition": "repeated trigrams",
    "sentence_ends": "sentence ends",
}


def _path_sections(path: MeasuredPath) -> list[str]:
    return [
        f"Straightness {path.straightness:.3f}, aim {path.aim:.3f}, largest step {path.largest_step:.3f}.",
        *(_points_table(path.points, columns) for columns in (_WORD_COLUMNS, _FORM_COLUMNS)),
    ]


def _points_table(points: Sequence[PathPoint], columns: dict[str, str]) -> str:
    return markdown_table(
        ["α", *columns.values()],
        [[f"{point.alpha:g}", *(f"{getattr(point, name):.3f}" for name in columns)] for point in points],
    )


def _fluency_sections(fluency: Fluency) -> list[str]:
    """Format the perplexity of the outputs at each ratio, and of the references at 0.5."""
    compared = [name for name in (SPLICE, CROSSOVER) if name in fluency.points]
    path = [
        [
            f"{point.alpha:g}",
            *_perplexity_cells(point.perplexity, fluency),
            *(f"{fluency.relative_to(name, point.alpha):.2f}" for name in compared),
            f"{point.faithfulness:.3f}",
        ]
        for point in fluency.points[OUTPUTS]
    ]
    titles = {OUTPUTS: "outputs", **REFERENCE_TITLES}
    references = [
        [title, *_perplexity_cells(point.perplexity, fluency), f"{point.faithfulness:.3f}"]
        for name, title in titles.items()
        if (point := fluency.at(name, 0.5)) is not None
    ]
    real = ["real sentences (copies)", *_perplexity_cells(fluency.real, fluency), "0.000"]
    relative = ["relative to real", "relative to real, per word"]
    return [
        markdown_table(
            ["α", "perplexity", *relative, *(f"to the {REFERENCE_TITLES[name]}" for name in compared), "faithfulness"],
            path,
        ),
        "At α=0.5:",
        markdown_table(["texts", "perplexity", *relative, "faithfulness"], [real, *references]),
    ]


def _perplexity_cells(perplexity: Perplexity, fluency: Fluency) -> list[str]:
    relative = perplexity.per_token / fluency.real.per_token, perplexity.per_word / fluency.real.per_word
    return [f"{perplexity.per_token:.1f}", *(f"{figure:.2f}" for figure in relative)]


def _conditions_table(points: Sequence[ConditionPoint]) -> str:
    return markdown_table(
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


def _examples(inspection: Inspection) -> list[str]:
    sections = []
    for row, (a, b) in enumerate(inspection.pairs[:_EXAMPLES]):
        rows = [[f"{alpha:g}", inspection.decoded.texts[alpha][row]] for alpha in reversed(GRID)]
        sections.append(markdown_table(["α", "text"], [["a", a], *rows, ["b", b]]))
    return sections


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a Markdown table; line breaks in cells become spaces."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
