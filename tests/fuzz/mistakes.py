"""Mistakes in a value, a path, a file of rows or a model folder."""

import gzip
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

Random = random.Random

# --- values ---------------------------------------------------------------------------------------------------


def bad_integer(draw: Random) -> str:
    words = ["x", "1.5", "-1", "-7", "nan", "inf", "", " ", "1e9", "0x10", "١٢x", "--", "None", "2,3", "9" * 4400]
    sizes = [str(draw.randint(2**64, 2**80)), f"-{draw.randint(1, 10**30)}", str(draw.randint(10**18, 10**26))]
    return draw.choice([*words, *sizes])


def bad_number(draw: Random) -> str:
    return draw.choice(["nan", "inf", "-inf", "1e400", "x", "", "1,5", "--1", "0x1p3", f"-{draw.random() + 0.01:.3f}"])


def bad_word(draw: Random) -> str:
    return "".join(draw.choices("abcxyz-_:;,.=/+é漢\u202e🦋 0189", k=draw.randint(1, 30))).strip(" /.") or "zz"


def bad_json_value(draw: Random) -> Any:
    """A value that is wrong for almost any option."""
    plain = [None, -1, 0, 1.5, 10**9, 10**30, -(10**30), "x", "", [], {}, [1, "a"], {"a": None}, True, False]
    strange = [float("nan"), float("inf"), "9" * 50, "\ud800", "\x00", [[[[]]]], draw.randint(2, 70), draw.random()]
    return draw.choice([*plain, *strange])


# --- paths ----------------------------------------------------------------------------------------------------


def bad_path(draw: Random, folder: Path, *, output: bool = False) -> str:
    """A path at which there is nothing to read or, for an output, nothing to write. `folder` is the case's own."""
    plain = folder / "plain.txt"
    plain.write_text("mine\n")
    kinds: dict[str, Callable[[], str]] = {
        "loop": lambda: _loop(folder),
        "nul": lambda: "a\0b.csv",
        "long name": lambda: "n" * draw.randint(256, 400) + ".csv",
        "long path": lambda: "/".join(["folder"] * 1000) + "/x.csv",
        "under a file": lambda: f"{plain}/x.csv",
        "empty": lambda: "",
        "url": lambda: draw.choice(["s3://", "gs://", "s3:///", "zz://x", "zz://x/"]),
    }
    if output:
        kinds |= {
            "no such folder": lambda: f"{folder}/none/deeper/out.csv",
            "folder of the system": lambda: f"/proc/{draw.choice(['', 'self/', 'sys/'])}out.csv",
        }
    else:
        kinds |= {
            "missing": lambda: f"{folder}/{draw.choice(['none', 'nöne', '-x', '~'])}.csv",
            "zero": lambda: _link(folder, "/dev/zero"),
            "null": lambda: _link(folder, "/dev/null"),
            "unfed": lambda: _unfed(folder),
            "strange bytes": lambda: os.fsdecode(b"\xff\xfe.csv"),
        }
    return kinds[draw.choice(sorted(kinds))]()


def _loop(folder: Path) -> str:
    (folder / "loop.csv").symlink_to("loop.csv")
    return str(folder / "loop.csv")


def _link(folder: Path, target: str) -> str:
    (folder / "device.csv").symlink_to(target)
    return str(folder / "device.csv")


def _unfed(folder: Path) -> str:
    os.mkfifo(folder / "pipe.csv")
    return str(folder / "pipe.csv")


# --- bytes of any file ----------------------------------------------------------------------------------------


def damage_bytes(draw: Random, path: Path) -> None:
    """Truncate, scramble or replace the content of a file."""
    content = bytearray(path.read_bytes())
    kind = draw.choice(["empty", "cut", "flip", "random", "zeros", "doubled", "head lost"])
    if kind == "empty":
        content = bytearray()
    elif kind == "cut":
        content = content[: draw.randrange(max(1, len(content)))]
    elif kind == "flip":
        for _ in range(draw.randint(1, 20)):
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    elif kind == "random":
        content = bytearray(draw.randbytes(draw.randint(1, 5000)))
    elif kind == "zeros":
        start = draw.randrange(len(content))
        content[start : start + 200] = bytes(min(200, len(content) - start))
    elif kind == "doubled":
        content = content + content  # not in place: the bytes may be shared
    else:
        content = content[draw.randint(1, 40) :]
    path.write_bytes(content)


# --- rows -----------------------------------------------------------------------------------------------------


def damage_rows(draw: Random, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> str:
    """A mistake in rows that are written as JSON lines: the lines."""
    rows = [dict(row) for row in rows]
    victim = draw.choice(rows)
    column = draw.choice(columns)
    kind = draw.choice(
        ["value", "key", "missing", "surrogate", "not object", "cut", "deep", "none", "huge", "null all"]
    )
    lines = None
    if kind == "value":
        victim[column] = draw.choice([None, "", "  ", [], {}, {"a": 1}, [0.5, 0.6], [1, "x"], "\ud83d", 1.5])
    elif kind == "key":
        victim["\udc00key"] = 1
    elif kind == "missing":
        for row in rows:
            row.pop(column)
    elif kind == "surrogate":
        victim[column] = "half \ud800 a character"
    elif kind == "huge":
        for row in rows:
            row[column] = 2**70
    elif kind == "null all":
        for row in rows:
            row[column] = None
    elif kind == "none":
        rows = []
    lines = [json.dumps(row) for row in rows]
    if kind == "not object":
        lines[draw.randrange(len(lines))] = draw.choice(["[]", "5", '"a"', "null", "nonsense", "{", "{'a': 1}", "NaN"])
    elif kind == "cut":
        lines[-1] = lines[-1][: draw.randint(1, len(lines[-1]) - 1)]
    elif kind == "deep":
        lines[0] = "[" * 200_000
    return "".join(line + "\n" for line in lines)


def damage_separated(draw: Random, text: str, separator: str) -> bytes:
    """A mistake in a CSV or TSV file with a header."""
    lines = text.splitlines()
    place = draw.randrange(1, len(lines))
    kind = draw.choice(["ragged", "short", "utf8", "header", "doubled", "only header", "empty", "quote", "blank text"])
    if kind == "ragged":
        lines[place] += separator + "more"
    elif kind == "short":
        lines[place] = "one"
    elif kind == "utf8":
        return text.encode() + b"\xff\xfe" + separator.encode() + b"good\n"
    elif kind == "header":
        lines[0] = lines[0].replace(draw.choice(lines[0].split(separator)), "other")
    elif kind == "doubled":
        lines[0] = separator.join([lines[0].split(separator)[0]] * len(lines[0].split(separator)))
    elif kind == "only header":
        lines = lines[:1]
    elif kind == "empty":
        lines = []
    elif kind == "quote":
        lines[place] = '"open' + separator + "good" if separator == "," else "one"
    else:
        lines[place] = separator.join(["  "] * len(lines[0].split(separator)))
    return "".join(line + "\n" for line in lines).encode()


def compressed_badly(draw: Random, content: bytes) -> tuple[str, bytes]:
    """The extension of a compressed file, and bytes that are not such a file."""
    packed = gzip.compress(content)
    return draw.choice(
        [(".gz", packed[: len(packed) // 2]), (".gz", content), (".xz", content), (".xz", packed), (".gz", b"\x1f\x8b")]
    )


# --- folders with models --------------------------------------------------------------------------------------


def damage_folder(draw: Random, folder: Path) -> str:
    """One mistake in the folder of a model; the name of the file that has it."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    json_files = [path for path in files if path.suffix == ".json"]
    kind = draw.choice(
        ["json value"] * 5 + ["json key", "bytes", "bytes", "gone", "folder", "loop", "pipe", "zero", "weights"]
    )
    path = draw.choice(json_files if kind.startswith("json") else files)
    if kind == "json value":
        _change_json(draw, path, lambda place, key: place.__setitem__(key, bad_json_value(draw)))
    elif kind == "json key":
        _change_json(draw, path, lambda place, key: place.__delitem__(key))
    elif kind == "bytes":
        damage_bytes(draw, path)
    elif kind == "weights":
        path = next((file for file in files if file.suffix in (".safetensors", ".bin")), path)
        _damage_weights(draw, path) if path.suffix != ".json" else damage_bytes(draw, path)
    else:
        path.unlink()
        if kind == "folder":
            path.mkdir()
        elif kind == "loop":
            path.symlink_to(path.name)
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "zero":
            path.symlink_to("/dev/zero")
    return path.name


def _change_json(draw: Random, path: Path, change: Callable[[Any, Any], None]) -> None:
    content = json.loads(path.read_text())
    place = content
    while True:  # some way down
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            break
        key = draw.choice(keys)
        below = place[key]
        if isinstance(below, dict | list) and below and draw.random() < 0.8:
            place = below
            continue
        change(place, key)
        break
    path.write_text(json.dumps(content))


def _damage_weights(draw: Random, path: Path) -> None:
    """Weights of other names, shapes, types or values."""
    import torch

    if path.suffix == ".bin":
        weights = torch.load(path, weights_only=True)
    else:
        from safetensors import safe_open

        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    name = draw.choice(sorted(weights))
    tensor = weights[name]
    kind = draw.choice(["nan", "inf", "shape", "gone", "type", "renamed", "huge", "empty"])
    if kind in ("nan", "inf", "huge"):
        if tensor.is_floating_point():
            tensor.view(-1)[0] = {"nan": float("nan"), "inf": float("inf"), "huge": 6e4}[kind]
    elif kind == "shape":
        weights[name] = torch.cat([tensor, tensor]) if tensor.ndim else tensor.expand(3).clone()
    elif kind == "gone":
        del weights[name]
    elif kind == "type":
        weights[name] = tensor.to(draw.choice([torch.int8, torch.int64, torch.bool, torch.float64, torch.float16]))
    elif kind == "renamed":
        weights[draw.choice([name + "x", "x", name.upper()])] = weights.pop(name)
    else:
        weights[name] = tensor.new_zeros(0)
    if path.suffix == ".bin":
        torch.save(weights, path)
    else:
        from safetensors.torch import save_file

        if metadata and "linda" in metadata and draw.random() < 0.3:
            described = json.loads(metadata["linda"])
            described[draw.choice(sorted(described))] = bad_json_value(draw)
            metadata["linda"] = draw.choice([json.dumps(described), "", "{", "[]"])
        save_file(weights, path, metadata=metadata)
