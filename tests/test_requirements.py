"""The minimum versions are those that the tests run with."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PINS = dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE))


def test_the_lowest_versions_are_the_pinned_ones() -> None:
    extras = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    lowest = dict(re.findall(r"^([\w-]+)>=(\S+)$", "\n".join([*PROJECT["dependencies"], *extras]), re.MULTILINE))
    assert {name: version for name, version in lowest.items() if name in PINS} == PINS
    assert not lowest.keys() - PINS.keys()
