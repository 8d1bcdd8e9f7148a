"""The documentation site is built as `make docs` builds it: strictly, so that broken links and anchors are errors."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from examples import ROOT
from linda.cli import _COMMANDS


def build(source: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    return subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_broken_links_and_anchors_are_errors(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT / "docs", source / "docs")
    shutil.copy(ROOT / "mkdocs.yml", source)
    for name in ("examples", "scripts", "src"):
        (source / name).symlink_to(ROOT / name)
    with (source / "docs" / "index.md").open("a", encoding="utf-8") as page:
        page.write("\n[a page](no-such-page.md) and [a section](explanation/design.md#no-such-section)\n")
    done = build(source, tmp_path / "site")
    assert done.returncode != 0
    warnings = [line for line in done.stderr.splitlines() if "WARNING" in line and "index.md" in line]
    assert len(warnings) == 2, done.stderr
    assert "no-such-page.md" in warnings[0]
    assert "#no-such-section" in warnings[1]


def test_has_the_help_of_every_command(site: Path) -> None:
    page = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    for command in _COMMANDS:
        assert f'id="linda-{command}"' in page
        assert f"Usage: linda {command}" in page


def test_has_the_public_names(site: Path) -> None:
    import linda

    page = (site / "reference" / "api.html").read_text(encoding="utf-8")
    for name in linda.__all__:
        if name != "__version__":
            assert re.search(rf'id="linda\.(\w+\.)*{name}"', page), name


def test_loads_nothing_from_other_servers(site: Path) -> None:
    loading = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)""")
    for page in site.rglob("*.html"):
        assert loading.findall(page.read_text(encoding="utf-8")) == []
    for style in site.rglob("*.css"):
        assert not re.search(r"""url\(["']?(?:https?:)?//|@import""", style.read_text(encoding="utf-8"))


def test_shows_equations_without_a_script(site: Path) -> None:
    page = (site / "explanation" / "method.html").read_text(encoding="utf-8")
    assert page.count("<math") >= 5
    assert "merror" not in page
