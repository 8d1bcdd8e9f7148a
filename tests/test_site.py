"""The documentation site is built as `make docs` builds it: strictly, so that broken links and anchors are errors."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples import ROOT
from linda.cli import _COMMANDS


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


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
