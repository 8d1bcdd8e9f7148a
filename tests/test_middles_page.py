"""The page of middles, from reports on disk."""

import json

import pytest

from linda import __version__
from linda.errors import LindaError
from middles_page import main, make_page

PAPER = """
<!-- run -->
```console
$ linda --version
old
```
"""


@pytest.fixture
def report(tmp_path):
    folder = tmp_path / "questions"
    folder.mkdir()
    about = {"model": "some/folder/model", "sentences": "trec.jsonl", "pairs": 30, "seed": 3, "engine": "int8"}
    (folder / "report.json").write_text(json.dumps({"about": about}), encoding="utf-8")
    rows = [
        {"a": f"a{number}", "b": f"b{number} | c", "alpha": alpha, "text": f"text {number} at {alpha}"}
        for alpha in (0.4, 0.5)
        for number in range(30)
    ]
    (folder / "outputs.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return folder


def test_pairs_are_drawn_by_the_seed(report):
    page = make_page([report], 20, 0, PAPER)
    rows = [line for line in page.splitlines() if "text" in line and line.startswith("| a")]
    assert len(rows) == len(set(rows)) == 20
    assert all("at 0.5" in row for row in rows)
    assert make_page([report], 20, 0, PAPER) == page
    assert make_page([report], 20, 1, PAPER) != page
    assert "## questions" in page
    assert "trec.jsonl, 30 pairs, seed 3, model model, engine int8" in page
    assert r"b1 \| c" in make_page([report], 30, 0, PAPER)


def test_the_papers_examples_are_run_and_are_no_examples_of_the_page(report):
    page = make_page([report], 1, 0, PAPER)
    assert f"```console\n$ linda --version\nlinda, version {__version__}\n```" in page
    assert "<!-- run" not in page


def test_a_report_with_too_few_pairs_or_none_is_an_error(report, tmp_path, capsys):
    with pytest.raises(LindaError, match="30 pairs, fewer than 31"):
        make_page([report], 31, 0, PAPER)
    with pytest.raises(SystemExit) as stopped:
        main([str(tmp_path / "nowhere"), "--output", str(tmp_path / "page.md")])
    assert stopped.value.code == 2
    assert "nowhere" in capsys.readouterr().err
    assert not (tmp_path / "page.md").exists()
