"""What `mkdocs build` takes from the code: the help of every command, and equations as MathML."""

from collections.abc import Iterator
from typing import Any

import click
from latex2mathml.converter import convert

from linda.cli import main as linda

COMMANDS_PAGE = "reference/commands.md"
_WIDTH = 80  # of a terminal


def on_config(config: Any) -> Any:
    """Convert ```math blocks to MathML, which browsers render without a script."""
    fence = {"name": "math", "class": "math", "format": _math}
    config.mdx_configs.setdefault("pymdownx.superfences", {})["custom_fences"] = [fence]
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    if page.file.src_uri != COMMANDS_PAGE:
        return markdown
    return "\n\n".join([markdown, *(f"## {name}\n\n```text\n{text}\n```" for name, text in command_helps())])


def command_helps() -> Iterator[tuple[str, str]]:
    """Yield every command as it is typed, and what its --help prints."""
    return _helps(linda, "linda", None)


def _helps(command: click.Command, name: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    settings = {"terminal_width": _WIDTH, "max_content_width": _WIDTH, **command.context_settings}
    context = click.Context(command, parent=parent, info_name=name, **settings)
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None
            yield from _helps(found, child, context)


def _math(source: str, *_: Any, **__: Any) -> str:
    return f'<div class="math">{convert(source, display="block")}</div>'
