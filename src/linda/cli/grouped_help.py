"""Help texts with groups of options."""

from collections.abc import Mapping, Sequence
from typing import Any

import click


class GroupedCommand(click.Command):
    """A command whose help lists its options under headings, with their defaults.

    `groups` maps headings to names of parameters. Options in no group, such as --help, come last. Examples are given as
    `epilog`.
    """

    def __init__(self, *args: Any, groups: Mapping[str, Sequence[str]], **settings: Any) -> None:
        settings["context_settings"] = {"show_default": True}
        super().__init__(*args, **settings)
        self.groups = groups

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = {
            parameter.name: parameter for parameter in self.get_params(ctx) if isinstance(parameter, click.Option)
        }
        groups = {heading: [options.pop(name) for name in names] for heading, names in self.groups.items()}
        for heading, group in {**groups, "Other options": list(options.values())}.items():
            records = [record for option in group if (record := option.get_help_record(ctx)) is not None]
            with formatter.section(heading):
                formatter.write_dl(records)
