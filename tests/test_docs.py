"""All examples in the documentation are run, and print what the documentation shows."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from examples import DOCUMENTS, ROOT, examples, needs_vnni, rerun, runs_on_every_engine
from linda import __version__
from linda.cli import main as linda
from linda.engines import NAMES
from linda.engines.int8_engine import Int8Engine
from linda.engines.linear import IntegerProduct

TEXTS = {path: path.read_text(encoding="utf-8") for path in DOCUMENTS}


def page_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


PAGES = [
    pytest.param(document, engine, id=f"{page_name(path)}-{engine}")
    for path, document in TEXTS.items()
    for engine in NAMES
    if any(engine != "torch" or runs_on_every_engine(example) for example in examples(document))
]


@pytest.mark.parametrize(("document", "engine"), PAGES)
def test_page(document: str, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if engine == "torch":
        monkeypatch.setattr(Int8Engine, "why_not", staticmethod(lambda base, device: "the torch engine is tested"))
    for example in examples(document):
        if engine == "torch" and not runs_on_every_engine(example):
            continue
        if needs_vnni(example) and not IntegerProduct.is_exact():
            continue
        assert rerun(example) == example


# The line above a fenced block, its language and its body.
BLOCK = re.compile(r"^(?P<above>[^\n]*)\n```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(*languages: str) -> Iterator[tuple[str, re.Match[str]]]:
    for path, document in TEXTS.items():
        yield from ((page_name(path), block) for block in BLOCK.finditer(document) if block["language"] in languages)


def test_every_block_is_run_or_says_why_not() -> None:
    for page, block in blocks("python", "console"):
        tested = re.fullmatch(r"<!-- run by (tests/\w+\.py) -->", block["above"])
        if tested:
            assert (ROOT / tested[1]).is_file()
        else:
            assert re.fullmatch(r"<!-- (run|run: .+|file: .+|not run: .+) -->", block["above"]), f"{page}: {block[0]}"


def test_python_blocks_are_python() -> None:
    for _, block in blocks("python"):
        if not block["body"].startswith("--8<--"):
            ast.parse(block["body"])


def shown_commands() -> Iterator[tuple[str, str]]:
    """The page and text of each command that is shown without what it prints."""
    for page, block in blocks("", "bash", "yaml"):
        body = re.sub(r"\$\(\(.*?\)\)", "1", block["body"].replace("\\\n", " "))  # the shell's arithmetic
        for line in body.splitlines():
            if match := re.match(r"(?:\s*|.*-m )(linda (?!.*[…|]).*?)(?:\s+#.*|\s+\(.*\))?$", line):
                yield page, match[1]
    for path, document in TEXTS.items():
        yield from (
            (page_name(path), command) for command in re.findall(r"\| `(linda [^`]* --output [^`]*)` \|", document)
        )


def test_shown_commands_have_existing_options() -> None:
    """As they stand there; tests/test_shown_commands.py runs them with small values."""
    commands = list(shown_commands())
    assert len(commands) > 40
    for page, line in commands:
        words = shlex.split(line)[1:]
        command: click.Command = linda
        context = click.Context(linda)
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            found = command.get_command(context, words.pop(0))
            assert found is not None, f"{page}: {line}"
            command, context = found, click.Context(found, parent=context)
        try:
            command.make_context(line, words)
        except click.UsageError as error:
            pytest.fail(f"{page}: {line}: {error.format_message()}")


def test_links_outside_the_site_lead_to_files() -> None:
    """The site checks its own links (tests/test_site.py)."""
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        for link in re.findall(r"\]\(([^)\s]+)\)", (ROOT / name).read_text(encoding="utf-8")):
            if not link.startswith(("https://", "#")):
                file, _, anchor = link.partition("#")
                assert (ROOT / file).exists(), f"{name}: {link}"
                headings = re.findall(r"^#+ (.*)$", (ROOT / file).read_text(encoding="utf-8"), re.M) if anchor else []
                assert not anchor or anchor in {heading.lower().replace(" ", "-") for heading in headings}, link


def test_the_readme_has_examples() -> None:
    found = list(examples((ROOT / "README.md").read_text(encoding="utf-8")))
    assert any("```console" in example for example in found)
    assert any("```python" in example for example in found)


RIGHT = f"""
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


def test_a_wrong_example_is_found_and_mended() -> None:
    wrong = RIGHT.replace("\none two\n", "\none three\n").replace(__version__, "other")
    for right_one, wrong_one in zip(examples(RIGHT), examples(wrong), strict=True):
        assert right_one != wrong_one
        assert rerun(right_one) == rerun(wrong_one) == right_one


def test_an_example_may_need_vnni() -> None:
    marked = RIGHT.replace("<!-- run -->", "<!-- run: VNNI -->")
    assert [needs_vnni(example) for example in examples(RIGHT)] == [False, False]
    assert [needs_vnni(example) for example in examples(marked)] == [True, True]
    assert [rerun(example) for example in examples(marked)] == list(examples(marked))


def test_the_readme_shows_what_every_reader_sees() -> None:
    assert not any(map(needs_vnni, examples((ROOT / "README.md").read_text(encoding="utf-8"))))


def test_a_failing_example_is_an_error() -> None:
    [example] = examples("<!-- run -->\n```console\n$ linda interpolate only-one\n```\n")
    with pytest.raises(RuntimeError, match="only-one"):
        rerun(example)
