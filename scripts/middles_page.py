"""Writes a page of middles: random pairs of several inspections at α = 0.5, and the paper's examples.

    python scripts/middles_page.py REPORT… --output docs/explanation/middles.md [--pairs 20] [--seed 0]

A REPORT is a folder written by `linda inspect`; its name is the heading of its pairs. The pairs are drawn by the seed,
and none is left out. The paper's path and Table 1 are the examples of docs/explanation/paper-examples.md, run again
with the embedded model.
"""

import argparse
import json
import sys
from pathlib import Path
from random import Random
from typing import Any

from examples import ROOT, examples, rerun
from linda.errors import LindaError
from linda.files.textio import atomic_writer
from linda.inspection.report import markdown_table

PAPER_EXAMPLES = ROOT / "docs" / "explanation" / "paper-examples.md"
ALPHA = 0.5


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", type=Path, metavar="REPORT", help="folder written by `linda inspect`")
    parser.add_argument("--output", type=Path, required=True, help="Markdown file to write")
    parser.add_argument("--pairs", type=int, default=20, help="pairs per report (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draw (default: 0)")
    options = parser.parse_args(arguments)
    try:
        page = make_page(options.reports, options.pairs, options.seed, PAPER_EXAMPLES.read_text(encoding="utf-8"))
        with atomic_writer(options.output) as file:
            file.write(page)
    except LindaError as error:
        print(f"middles_page: {error}", file=sys.stderr)
        sys.exit(2)


def make_page(reports: list[Path], pairs: int, seed: int, paper_examples: str) -> str:
    """Write the text of the page.

    Args:
        reports: Folders written by `linda inspect`.
        pairs: Number of pairs from each.
        seed: Seed of the draw.
        paper_examples: A document whose examples are run and shown.

    Returns:
        Markdown.

    Example:
        >>> make_page([Path("reports/trec")], 20, 0, Path("docs/explanation/paper-examples.md").read_text())
    """
    sections = [
        "# Middles",
        f"{pairs} random pairs per set at α = {ALPHA:g}, drawn with seed {seed}; none was picked or left out. "
        "`scripts/middles_page.py` writes this page from the outputs of `linda inspect`.",
    ]
    for folder in reports:
        sections += [f"## {folder.name}", *_drawn_pairs(folder, pairs, seed)]
    sections += [
        "## The paper's examples",
        "The path of Appendix E, then Table 1. [paper-examples.md](paper-examples.md) quotes what the paper prints.",
        *(_shown_only(rerun(example)) for example in examples(paper_examples)),
    ]
    return "\n\n".join(section.strip() for section in sections) + "\n"


def _drawn_pairs(folder: Path, count: int, seed: int) -> list[str]:
    about = _read_json(folder / "report.json")["about"]
    rows = [row for row in _read_lines(folder / "outputs.jsonl") if row["alpha"] == ALPHA]
    if len(rows) < count:
        raise LindaError(f"{folder} has {len(rows)} pairs, fewer than {count}; inspect more, or lower --pairs")
    drawn = [rows[number] for number in sorted(Random(seed).sample(range(len(rows)), count))]
    return [
        f"`linda inspect` on {about['sentences']}, {about['pairs']} pairs, seed {about['seed']}, model "
        f"{Path(about['model']).name}, engine {about['engine']}.",
        markdown_table(["a", "b", f"α = {ALPHA:g}"], [[row["a"], row["b"], f"**{row['text']}**"] for row in drawn]),
    ]


def _shown_only(example: str) -> str:
    """Replace the mark above the block, because the tests run each example in its own document."""
    return "<!-- not run: paper-examples.md runs it -->\n" + example.split("\n", 1)[1]


def _read_json(path: Path) -> dict[str, Any]:
    return json.loads(_read(path))


def _read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _read(path).splitlines()]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise LindaError(f"{path} cannot be read; give folders that `linda inspect` wrote") from error


if __name__ == "__main__":
    main()
