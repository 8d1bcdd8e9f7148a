"""Draws the figures of the documentation from committed results and the embedded model.

    python scripts/figures.py [--output docs/images]

path.svg       the path between two sentences (scripts/path_picture.py)
converter.svg  the weights of the length converter, with the embedded model's σ
share.svg      measured share against requested ratio: docs/results/embedded/*/report.md
gains.svg      gain of every method over the original rows: docs/results/bench/{low-resource,movies,rte}/results.csv
"""

import csv
import re
from pathlib import Path
from typing import Any

import click
import matplotlib
import torch
from matplotlib.figure import Figure

from linda.files.textio import atomic_path, atomic_writer
from linda.model.checkpoint import load_converter, model_folder
from path_picture import path_picture

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
# The tables of accuracy against the originals. Other folders hold studies, or choices made on validation data.
ACCURACY_TABLES = ("low-resource", "movies", "rte")


@click.command()
@click.option("--output", default=ROOT / "docs" / "images", type=click.Path(path_type=Path), help="Folder to write to.")
def main(output: Path) -> None:
    with atomic_writer(output / "path.svg") as file:
        file.write(path_picture())
    draw_figures(output)


def draw_figures(output: Path) -> None:
    """Draw all figures but the path. The bytes are always the same: no date, and ids derived from the content."""
    settings: dict[str, Any] = {"svg.hashsalt": "linda", "font.size": 9}
    for name, draw in FIGURES.items():
        with matplotlib.rc_context(settings), atomic_path(output / name) as part:
            draw().savefig(part, format="svg", facecolor="white", metadata={"Date": None})


def draw_converter(length: int = 9, target: int = 6) -> Figure:
    """Draw the weight of each state of a text of `length` tokens in each state of a mixture of `target` tokens."""
    converter = load_converter(model_folder(None))
    states, sizes = torch.eye(length)[None], torch.tensor([length])
    with torch.no_grad():
        weights = converter(states, sizes, torch.tensor([target]))[0]  # (L̃, L): the identity shows the weights
    figure = Figure(figsize=(4.6, 3.2), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(weights.numpy(), cmap="Blues", vmin=0, vmax=1, extent=(0.5, length + 0.5, target + 0.5, 0.5))
    axes.set(xlabel="k, position in the text", ylabel="j, position in the mixture")
    axes.set_title(f"L = {length}, L̃ = {target}, σ = {converter.sigma.item():.2f}")
    figure.colorbar(image, label="weight")
    return figure


def draw_share() -> Figure:
    figure = Figure(figsize=(4.6, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="tab:gray", linestyle=":", label="requested")
    for report in sorted((RESULTS / "embedded").glob("*/report.md")):
        path = _path_table(report.read_text(encoding="utf-8"))
        axes.plot([row[0] for row in path], [row[1] for row in path], marker=".", label=report.parent.name)
    axes.set(xlabel="requested ratio α", ylabel="measured share of a", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.legend()
    return figure


def _path_table(report: str) -> list[tuple[float, float]]:
    """Return α and the share of a, from the first table of a report that has both."""
    for table in re.findall(r"(?:^\|.*\n)+", report, re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines())
        if {"α", "share of a"} <= set(head):
            columns = head.index("α"), head.index("share of a")
            return [(float(row[columns[0]]), float(row[columns[1]])) for row in rows]
    raise ValueError("the report has no table of the path")


def draw_gains() -> Figure:
    rows = [
        row
        for table in ACCURACY_TABLES
        for row in csv.DictReader((RESULTS / "bench" / table / "results.csv").read_text("utf-8").splitlines())
        if row["gain"]
    ]
    tasks = list(dict.fromkeys(map(_task, rows)))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    figure = Figure(figsize=(7.2, 0.62 * len(tasks) + 1.2), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0, color="black", linewidth=0.8)
    for number, method in enumerate(methods):
        own = [row for row in rows if row["method"] == method]
        axes.errorbar(
            [float(row["gain"]) for row in own],
            [tasks.index(_task(row)) + 0.7 * ((number + 0.5) / len(methods) - 0.5) for row in own],
            xerr=[float(row["gain_margin_95"]) for row in own],
            fmt="o" if method == "linda" else ".",
            linewidth=1.8 if method == "linda" else 0.8,
            label=method,
        )
    axes.set_yticks(range(len(tasks)), tasks)
    axes.invert_yaxis()
    axes.set_xlabel("accuracy points over the original rows alone, 95 % confidence interval")
    axes.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside right upper")
    return figure


def _task(row: dict[str, str]) -> str:
    return f"{row['task']}, {row['protocol']}" + ("" if row["test"] == "test" else f", {row['test']}")


FIGURES = {"converter.svg": draw_converter, "share.svg": draw_share, "gains.svg": draw_gains}


if __name__ == "__main__":
    main()
