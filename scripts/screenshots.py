"""Takes the screenshots for docs/ and the README: `linda serve` in a real browser.

    python scripts/screenshots.py

It starts the server on a free port and drives Chromium with Playwright. The benchmark that is shown is one of
docs/results; its cells are reconstructed from its table.
"""

import csv
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from chromium import open_browser

ROOT = Path(__file__).parents[1]

TABLE = """text,label
The room was clean and the bed was soft.,good
We were tired and the room was loud.,bad
The staff helped us with everything.,good
Nobody answered when we called the desk.,bad
Breakfast was fresh and there was plenty of it.,good
The food was cold and the coffee was weak.,bad
A quiet street close to the station.,good
The shower was broken on both days.,bad
"""


# Name, colour scheme, width and height.
VIEWS = (("light", "light", 1180, 960), ("dark", "dark", 1180, 960), ("phone", "light", 390, 1180))

TABLE_CLIP = {"x": 0, "y": 0, "width": 1180, "height": 1700}

RESULTS = ROOT / "docs" / "results" / "bench" / "low-resource"


@click.command()
@click.option("--output", default=ROOT / "docs" / "images", type=click.Path(path_type=Path), show_default=True)
def main(output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        bench = Path(scratch) / RESULTS.name
        write_cells(RESULTS / "cells.csv", bench / "cells")
        make_screenshots(output, bench)
    click.echo(f"Screenshots are in {output}")


def write_cells(table: Path, folder: Path) -> None:
    """Write cells for a report, reconstructed from a committed table."""
    folder.mkdir(parents=True)
    with table.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file)):
            shots = re.match(r"(\d+)-shot", row["protocol"])
            cell = {
                "task": row["task"],
                "protocol": row["protocol"],
                "shots": int(shots[1]) if shots else None,
                "train_size": None,
                "domain": row["domain"] or None,
                "method": row["method"],
                "seed": int(row["seed"]),
                "settings": {"on": "test"},
                "policy": None,
                "scores": {row["test"]: float(row["accuracy"])},
                "test_rows": {row["test"]: 0},  # the table does not say how many, and the page does not show them
                "rows": int(row["rows"]),
                "new_rows": int(row["new_rows"]),
                "updates": int(row["updates"]),
                "source": RESULTS.name,
                "date": "",
                "machine": "",
                "notes": [],
                "seconds": {},
            }
            (folder / f"{number}.json").write_text(json.dumps(cell), encoding="utf-8")


def make_screenshots(output: Path, bench: Path) -> None:
    with running_server("--bench", str(bench)) as address, open_browser() as browser:
        for name, scheme, width, height in VIEWS:
            context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height})
            page = context.new_page()
            page.goto(address)
            page.get_by_role("button", name="Write the path").click()
            page.locator("#path-list .numbers").nth(10).wait_for()
            page.mouse.move(0, 0)
            page.screenshot(path=output / f"serve-path-{name}.png")
            if name == "light":
                page.goto(f"{address}#table")
                page.get_by_text("Or paste rows").click()
                page.get_by_label("CSV, with the column names").fill(TABLE)
                page.get_by_role("button", name="Use these rows").click()
                page.get_by_role("button", name="Preview 20 rows").click()
                page.locator("#preview-rows li.card").first.wait_for()
                page.screenshot(path=output / f"serve-table-{name}.png", clip=TABLE_CLIP, full_page=True)
                page.goto(f"{address}#bench")
                page.locator("#advice li").first.wait_for()
                page.screenshot(path=output / f"serve-bench-{name}.png")
            context.close()


@contextmanager
def running_server(*options: str) -> Iterator[str]:
    """Yield the address of a server, which is stopped after the block."""
    command = [sys.executable, "-m", "linda", "serve", "--no-open", "--port", "0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            found = re.search(r"http://\S+", server.stderr.readline())
            if found is None:
                raise click.ClickException("the server did not start")
            yield found[0]
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
