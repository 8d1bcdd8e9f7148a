"""Wrong values for the Python API: a `LindaError` that names the value, as on the command line.

Settings are read from the signatures, so that new ones are tested too.
"""

import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from fuzz.mistakes import Random
from fuzz.running import Case
from fuzz.world import ROWS, TEXTS

# Any value is true or false, and messages may be passed to anything.
_FLAGS = ("progress", "raw", "copies", "raw_ratio", "skip_empty", "only_new", "resume", "restart", "shuffle", "join")
_CALLED = ("executor", "on_note")


def bad_value(draw: Random) -> Any:
    """A value of another type or size than almost any setting has."""
    numbers = [0, -1, 5, 1.5, float("nan"), float("inf"), 2**70, -(2**70), True]
    others = [None, "", "x", "\ud800", "a\0b", b"x", [], [5], [None], {}, {"good": -1}, ("a",), object()]
    return draw.choice([*numbers, *others])


def wrong_python_value(draw: Random, world: Path, folder: Path) -> Case:
    """A call of a public function with one wrong value."""
    call = draw.choice([_augment, _augment, _augment_data, _mix, _mix, _classifier, _augment_file])
    name, compute = call(draw, world, folder)
    return Case(name, [], call=compute, may_pass=True, outputs=("out",))


Named = tuple[str, Callable[[], object]]


def _augment(draw: Random, world: Path, folder: Path) -> Named:
    from linda import augment
    from linda.augmentation.settings import AugmentationSettings

    names = [known.name for known in fields(AugmentationSettings) if known.name not in (*_FLAGS, "model", "encoder")]
    name, value = draw.choice([*names, "plan"]), bad_value(draw)
    settings: dict[str, Any] = {"method": "eda", name: value}
    return f"augment({name}={value!r})", lambda: augment(_data(), **settings)


def _augment_data(draw: Random, world: Path, folder: Path) -> Named:
    from linda import augment

    column, value = draw.choice(["text", "label"]), bad_value(draw)
    spoiled = draw.choice([value, [value] * len(ROWS), [value, *_data()[column][1:]]])
    return f"augment({column}: {value!r})", lambda: augment({**_data(), column: spoiled}, method="eda")


def _mix(draw: Random, world: Path, folder: Path) -> Named:
    from linda import Interpolator
    from linda.engines.decoding import Decoding

    names = [name for name in inspect.signature(Interpolator.mix).parameters if name not in ("self", "decoding")]
    names += [known.name for known in fields(Decoding)]
    name, value = draw.choice([name for name in names if name not in _FLAGS]), bad_value(draw)
    settings: dict[str, Any] = {"a": TEXTS[0], "b": TEXTS[-1], "raw": draw.random() < 0.5, name: value}
    model = world / draw.choice(["model", "attention"])
    return f"mix({name}={value!r})", lambda: Interpolator.from_pretrained(model).mix(**settings)


def _classifier(draw: Random, world: Path, folder: Path) -> Named:
    from linda.classifier import TextClassifier

    made = [name for name in inspect.signature(TextClassifier).parameters if name not in _FLAGS]
    fitted = [name for name in inspect.signature(TextClassifier.fit).parameters if name != "self"]
    name, value = draw.choice([*made, *fitted]), bad_value(draw)
    settings: dict[str, Any] = {"encoder": world / "encoder", "updates": 1, "max_length": 16}
    rows: dict[str, Any] = {"texts": _data()["text"], "labels": _data()["label"]}
    (settings if name in made else rows)[name] = value
    if settings["encoder"] is None:  # the default one, which may not be here
        settings["encoder"] = 5
    return f"TextClassifier({name}={value!r})", lambda: TextClassifier(**settings).fit(**rows)


def _augment_file(draw: Random, world: Path, folder: Path) -> Named:
    from linda import Augmenter, augment_file

    known = [name for name in inspect.signature(augment_file).parameters if name not in (*_FLAGS, *_CALLED)]
    name, value = draw.choice(known), bad_value(draw)
    files = {"source": world / "table.csv", "output": folder / "out.csv"}
    settings: dict[str, Any] = {"augmenter": Augmenter(method="eda"), **files, name: value}
    return f"augment_file({name}={value!r})", lambda: augment_file(**settings)


def _data() -> dict[str, list[Any]]:
    return {column: [row[column] for row in ROWS] for column in ("text", "label")}
