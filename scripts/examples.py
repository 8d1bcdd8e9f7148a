"""Runs the examples of the documentation and writes what they print under them.

    python scripts/examples.py

An example is a block under `<!-- run -->`. A `python` block is run as it is; what it prints stands in the `text` block
that follows it, if one does. In a `console` block the lines `$ linda …` are run, and what each prints stands under it;
one that shows nothing is run all the same.

The tests run every example on every engine (`linda.engines.NAMES`), with and without VNNI, for a reader may have any of
them: where they print different texts, take another example. One that must stay as it is, and prints different texts,
is marked `<!-- run: VNNI -->`: it shows what the int8 engine prints on a processor with VNNI, and is run there alone.
Run this script on such a processor when another model is embedded, and the tests after it.
"""

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner

from linda.cli import main as linda

ROOT = Path(__file__).parents[1]
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))

_EXAMPLE = re.compile(
    r"^<!-- run(?P<vnni>: VNNI)? -->\n"
    r"```(?P<language>\w+)\n(?P<body>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
_COMMAND = re.compile(r"^\$ linda (?P<arguments>.*)\n(?P<printed>(?:(?!\$ ).*\n)*)", re.MULTILINE)


def main() -> None:
    for path in DOCUMENTS:
        document = path.read_text(encoding="utf-8")
        for example in examples(document):
            document = document.replace(example, rerun(example))
        path.write_text(document, encoding="utf-8")


def examples(document: str) -> Iterator[str]:
    """Every example with what it is said to print."""
    return (match[0] for match in _EXAMPLE.finditer(document))


def needs_vnni(example: str) -> bool:
    """Whether it shows what is printed with VNNI, and not what every reader sees."""
    match = _EXAMPLE.fullmatch(example)
    assert match, f"no example: {example}"
    return match["vnni"] is not None


def rerun(example: str) -> str:
    """The example with what it prints now. An error that it raises, or a command that fails, is raised here."""
    match = _EXAMPLE.fullmatch(example)
    assert match, f"no example: {example}"
    if match["language"] == "console":
        return example.replace(match["body"], _COMMAND.sub(_run_command, match["body"]))
    printed = _run_python(match["body"])
    if match["printed"] is None:
        return example
    return example[: match.start("printed")] + printed + example[match.end("printed") :]


def _run_command(command: re.Match[str]) -> str:
    result = CliRunner().invoke(linda, shlex.split(command["arguments"]))
    if result.exit_code != 0:
        raise RuntimeError(f"linda {command['arguments']}: {result.stderr}")
    return f"$ linda {command['arguments']}\n" + (result.stdout if command["printed"] else "")


def _run_python(code: str) -> str:
    stdout = io.StringIO()
    with contextlib.redirect_stdout(stdout):
        exec(compile(code, "example", "exec"), {"__name__": "__main__"})
    return stdout.getvalue()


if __name__ == "__main__":
    main()
