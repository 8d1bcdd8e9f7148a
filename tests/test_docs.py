"""What the documentation shows is run: every block under `<!-- run -->` works and prints what stands below it.

A `python` block is run as it is; what it prints is compared with the `text` block that follows it, if one does. In a
`console` block the lines `$ linda …` are run, and what stands under each is compared.
"""

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from linda import __version__
from linda.cli import main
from linda.interpolator import EMBEDDED

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(
    r"^<!-- run -->\n```(?P<language>\w+)\n(?P<body>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    language: str
    body: str
    printed: str | None


def blocks(document: str) -> list[Block]:
    return [Block(match["language"], match["body"], match["printed"]) for match in BLOCK.finditer(document)]


def run_block(block: Block) -> None:
    if block.language == "console":
        for command, printed in re.findall(r"^\$ linda (.*)\n((?:(?!\$ ).*\n)*)", block.body, re.MULTILINE):
            result = CliRunner().invoke(main, shlex.split(command))
            assert result.exit_code == 0, result.stderr
            assert printed in ("", result.stdout)
    else:
        stdout = io.StringIO()
        with contextlib.redirect_stdout(stdout):
            exec(compile(block.body, "example", "exec"), {"__name__": "__main__"})
        assert block.printed in (None, stdout.getvalue())


EXAMPLES = [
    pytest.param(block, id=f"{path.name}-{number}")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    for number, block in enumerate(blocks(path.read_text(encoding="utf-8")), start=1)
]


@pytest.mark.skipif(not EMBEDDED.is_dir(), reason="the examples use the embedded model, which is not here yet")
@pytest.mark.parametrize("block", EXAMPLES)
def test_example(block: Block) -> None:
    run_block(block)


def test_the_readme_has_examples() -> None:
    languages = [block.language for block in blocks((ROOT / "README.md").read_text(encoding="utf-8"))]
    assert {"console", "python"} <= set(languages)


GOOD = f"""
<!-- run -->
```python
print("one", "two")
```

```text
one two
```

<!-- run -->
```console
$ linda --version
linda, version {__version__}
```
"""


def test_a_wrong_example_is_found() -> None:
    right = blocks(GOOD)
    assert [block.language for block in right] == ["python", "console"]
    for block in right:
        run_block(block)
    for wrong in blocks(GOOD.replace("one two", "one three").replace(__version__, "other")):
        with pytest.raises(AssertionError):
            run_block(wrong)
    with pytest.raises(AssertionError):
        run_block(Block("console", "$ linda interpolate only-one\n", None))
