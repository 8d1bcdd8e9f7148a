"""Runs the examples of the documentation and writes what they print under them.

    python scripts/examples.py

An example is a block under one of these marks. The examples of a page run in order, in an empty folder.

    <!-- run -->               a `python` block is run by itself; a `text` block that follows it shows what it prints.
                               In a `console` block the lines `$ …` are run, and what each prints is below it. If
                               nothing is below a command, its output is ignored.
    <!-- run: one engine -->   the same, but not on every engine: for slow examples.
    <!-- run: VNNI -->         the same, but only on a processor with VNNI: for texts that differ between engines.
    <!-- file: NAME -->        the block is written to the file NAME.

Every other `python` or `console` block has `<!-- run by tests/NAME.py -->` or `<!-- not run: REASON -->` above it.

The tests run the examples on every engine (`linda.engines.NAMES`), with and without VNNI, because a reader may have any
of them: if the outputs differ, choose another example. After a change of the embedded model, run this script on a
processor with VNNI, then the tests.
"""

import contextlib
import io
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner

from linda.cli import main as linda

ROOT = Path(__file__).parents[1]
DOCUMENTS = (
    ROOT / "README.md",
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if "results" not in path.parts),
)

_EXAMPLE = re.compile(
    r"^<!-- (?:run(?:: (?P<where>VNNI|one engine))?|file: (?P<file>[\w.-]+)) -->\n"
    r"```(?P<language>\w+)(?: title=\S+)?\n(?P<body>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
# A line that ends in a backslash is continued in the next one.
_COMMAND = re.compile(r"^\$ (?P<command>(?:.*\\\n)*.*)\n(?P<printed>(?:(?!\$ ).*\n)*)", re.MULTILINE)


def main() -> None:
    for path in DOCUMENTS:
        document = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            for example in examples(document):
                document = document.replace(example, rerun(example))
        path.write_text(document, encoding="utf-8")


def examples(document: str) -> Iterator[str]:
    """Yield every example, with its printed output."""
    return (match[0] for match in _EXAMPLE.finditer(document))


def needs_vnni(example: str) -> bool:
    """Whether it shows what is printed with VNNI, and not what every reader sees."""
    return _parts(example)["where"] == "VNNI"


def runs_on_every_engine(example: str) -> bool:
    return _parts(example)["where"] is None


def rerun(example: str) -> str:
    """Run an example, and return it with what it prints now. Raises its error, or a RuntimeError if a command fails."""
    match = _parts(example)
    if match["file"] is not None:
        Path(match["file"]).write_text(match["body"], encoding="utf-8")
        return example
    if match["language"] == "console":
        return example.replace(match["body"], _COMMAND.sub(_run_command, match["body"]))
    printed = _run_python(match["body"])
    if match["printed"] is None:
        return example
    return example[: match.start("printed")] + printed + example[match.end("printed") :]


def _parts(example: str) -> re.Match[str]:
    match = _EXAMPLE.fullmatch(example)
    assert match, f"no example: {example}"
    return match


def _run_command(command: re.Match[str]) -> str:
    words = shlex.split(command["command"].replace("\\\n", " "))
    if words[0] == "linda":
        result = CliRunner().invoke(linda, words[1:])
        status, printed, errors = result.exit_code, result.stdout, result.stderr
    else:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        status, printed, errors = done.returncode, done.stdout, done.stderr
    if status != 0:
        raise RuntimeError(f"{command['command']}: {errors}")
    return f"$ {command['command']}\n" + (printed if command["printed"] else "")


def _run_python(code: str) -> str:
    stdout = io.StringIO()
    with contextlib.redirect_stdout(stdout):
        exec(compile(code, "example", "exec"), {"__name__": "__main__"})
    return stdout.getvalue()


if __name__ == "__main__":
    main()
