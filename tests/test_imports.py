"""The import direction that CONTRIBUTING shows: a package imports only from those above it in the list."""

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from linda.cli import _COMMANDS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "linda"

# The first column of the table in "Where things are": `files/`, or `errors.py`.
ORDER = re.findall(r"^\| `(\w+)(?:/|\.py)` \|", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE)

# Neither is imported by others: the public names, which are looked up when first used, and `python -m linda`.
ENTRY_POINTS = {"__init__", "__main__"}


def imported(path: Path) -> Iterator[list[str]]:
    """The modules of linda that a file imports anywhere, split at dots: at the top, in functions, for types."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name.split(".")[1:] for name in names if name.startswith("linda."))


def test_everything_is_in_the_list() -> None:
    modules = {path.stem for path in SOURCE.glob("*.py")} - ENTRY_POINTS
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert modules | packages == set(ORDER)


@pytest.mark.parametrize("place", range(len(ORDER)), ids=ORDER)
def test_imports_point_up_the_list(place: int) -> None:
    name = ORDER[place]
    files = [SOURCE / f"{name}.py"] if (SOURCE / f"{name}.py").exists() else (SOURCE / name).rglob("*.py")
    below = {
        f"{path.relative_to(SOURCE)} imports {other}"
        for path in files
        for other, *_ in imported(path)
        if other in ORDER[place + 1 :]
    }
    assert not below


def test_no_module_of_the_model_imports_itself_by_way_of_others() -> None:
    modules = [path for path in (SOURCE / "model").glob("*.py") if path.stem != "__init__"]
    graph = {path.stem: {name[1] for name in imported(path) if name[0] == "model"} for path in modules}
    assert {"checkpoint", "length_converter", "loss"} <= graph["linda_model"]
    list(TopologicalSorter(graph).static_order())  # raises a CycleError


def test_every_package_says_what_its_modules_hold() -> None:
    commands = {SOURCE.parent / (module.replace(".", "/") + ".py") for module, _ in _COMMANDS.values()}
    for package in SOURCE.glob("*/**/__init__.py"):
        described = ast.get_docstring(ast.parse(package.read_text(encoding="utf-8"))) or ""
        names = [path.stem for path in set(package.parent.glob("*.py")) - {package} - commands]
        assert [name for name in names if not re.search(rf"\b{name}\b", described)] == [], package


def test_no_module_imports_itself_when_it_is_loaded() -> None:
    """Imports in functions, and those for types alone, may point both ways: they are not run with the module."""
    modules = {path.relative_to(SOURCE).with_suffix("").parts: path for path in SOURCE.rglob("*.py")}
    modules = {parts[:-1] if parts[-1] == "__init__" else parts: path for parts, path in modules.items()}
    graph = {}
    for parts, path in modules.items():
        at_load = [
            node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.ImportFrom)
        ]
        names = [f"{node.module}.{alias.name}".split(".") for node in at_load for alias in node.names]
        found = [tuple(name[1:]) for name in names if name[0] == "linda"]
        graph[parts] = {name if name in modules else name[:-1] for name in found} - {()}
    assert ("augmentation", "pipeline") in graph["file_runs", "block_pipeline"]
    list(TopologicalSorter(graph).static_order())  # raises a CycleError


def test_a_class_or_an_alias_of_a_type_has_its_name_alone() -> None:
    """Constants may be repeated: those of the commands are, so that --help imports nothing heavy."""
    defined: dict[str, list[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else [node]
            names = [getattr(target, "name", getattr(target, "id", "")) for target in targets]
            for name in names if isinstance(node, ast.ClassDef | ast.Assign) else ():
                if re.match(r"[A-Z]\w*[a-z]", name):
                    defined.setdefault(name, []).append(str(path.relative_to(SOURCE)))
    assert {"LindaModel", "CellExecutor", "Rng"} <= defined.keys()
    assert {name: places for name, places in defined.items() if len(places) > 1} == {}
