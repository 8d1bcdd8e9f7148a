"""Command lines with one mistake each. Options are read from the commands, so that new options are tested too."""

import random
import re
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import click

from fuzz import api, mistakes
from fuzz.lines import ALMOST, COMMANDS, PATHS, TEXTS_WITH_RULES, Lines
from fuzz.mistakes import Random
from fuzz.running import Case
from fuzz.world import ROWS, TEXTS
from linda.cli import main


class Maker(Lines):
    """Draws cases from a seed: case number i does not depend on the others."""

    def __init__(self, world: Path, seed: int) -> None:
        super().__init__(world)
        self.seed = seed
        self.kinds: list[Callable[[Random, Path], Case]] = [
            self.wrong_option_value,
            self.wrong_option_value,
            self.almost_right_text,
            self.wrong_path,
            self.wrong_path,
            self.wrong_arguments,
            self.damaged_table,
            self.damaged_parquet,
            self.damaged_pairs,
            self.damaged_sentences,
            self.damaged_plan,
            self.damaged_model,
            self.damaged_model,
            self.damaged_model,
            self.damaged_state,
            self.strange_input_stream,
            self.taken_name,
            self.too_much,
            self.one_file_for_two,
            self.wrong_python_value,
        ]

    def make(self, number: int, folder: Path) -> Case:
        draw = random.Random(f"{self.seed} {number}")
        folder.mkdir(parents=True)
        kind = self.kinds[number % len(self.kinds)]
        case = kind(draw, folder)
        case.name = f"case {number} ({kind.__name__}) {case.name}"
        return case

    # --- kinds of mistakes ------------------------------------------------------------------------------------

    def wrong_option_value(self, draw: Random, folder: Path) -> Case:
        """A value that its option cannot have."""
        command = draw.choice(COMMANDS)
        context = click.Context(main)
        options = []
        name, *below = command.split()
        found = main.get_command(context, name)
        for option in (found.get_command(context, below[0]) if below else found).params:
            name = max(getattr(option, "opts", []), key=len)
            if not isinstance(option, click.Option) or option.is_flag or option.nargs != 1:
                continue
            kind = option.type
            if isinstance(kind, click.types.IntParamType):
                options.append((name, mistakes.bad_integer))
            elif isinstance(kind, click.types.FloatParamType):
                options.append((name, mistakes.bad_number))
            elif isinstance(kind, click.Choice) or name in TEXTS_WITH_RULES:
                options.append((name, mistakes.bad_word))
        if not options:
            return self.wrong_arguments(draw, folder)
        name, make = draw.choice(options)
        value = make(draw)
        line = self.good(command, folder)
        if name in ("--temperature", "--top-p") and command == "interpolate":
            line["--sample"] = None
        line[name] = value
        if name == "--shots":
            line.pop("--train-size", None)
        # A blank number is named by its option; a word may happen to be a method's or a device's name.
        # Of a list or of a method with settings, the part that is wrong is named.
        parts = [part.strip() for part in re.split("[,+]", value) if part.strip()] if make is mistakes.bad_word else []
        shown = (value[:20], repr(value)[1:20], *parts, name.strip("-").replace("-", "_"), name)
        return self.case(command, line, *filter(None, shown), may_pass=make is mistakes.bad_word)

    def almost_right_text(self, draw: Random, folder: Path) -> Case:
        """A text that breaks a rule of its option."""
        command, name = draw.choice(list(ALMOST))
        value = draw.choice(ALMOST[command, name])
        # The part of the value that is wrong is named, or the option, or one of its values: a weight.
        parts = filter(None, re.split("[,:]", value))
        return self.case(command, self.good(command, folder, **{name: value}), name.strip("-").rstrip("s"), *parts)

    def wrong_path(self, draw: Random, folder: Path) -> Case:
        """A path that cannot be read, or written."""
        command = draw.choice(COMMANDS)
        name = draw.choice(list(PATHS[command]))
        path = mistakes.bad_path(draw, folder, output=PATHS[command][name] == "out")
        line = self.good(command, folder, **{name: path})
        # A missing output folder is created, so this is not a mistake.
        makes_parents = PATHS[command][name] == "out" and command not in ("interpolate", "augment", "middles table")
        case = self.case(command, line, may_pass=makes_parents and "none/deeper" in path)
        case.name += f" {name} {path[:40]!r}"
        case.outputs += ("none",)
        return case

    def wrong_arguments(self, draw: Random, folder: Path) -> Case:
        """An unknown option, one that is repeated or lacks its value, or a missing argument."""
        command = draw.choice(COMMANDS)
        line = self.good(command, folder)
        kinds = ["unknown", "no value", "too many", "command"]
        kind = draw.choice(kinds if command == "serve" else [*kinds, "too few"])  # serve needs nothing: it would run
        if kind == "command":
            word = mistakes.bad_word(draw).replace("-", "x") + "q"
            return Case(f"no command {word}", [word], needles=(word, "No such command"))
        if kind == "unknown":
            name = f"--{draw.choice(['verbos', 'alhpa', 'outptu', 'zz', 'help-me'])}"
            return self.case(command, {**line, name: "1"}, name)
        if kind == "no value":
            case = self.case(command, line)
            options = [argument for argument in case.arguments if argument.startswith("--") and "=" in argument]
            option = options[-1] if options else "--bits=8"
            rest = [argument for argument in case.arguments[: case.arguments.index("--")] if argument != option]
            case.arguments = [*rest, option.split("=")[0]]
            return case
        if kind == "too few":
            needed = [
                name for name in line if name in ("A", "B", "IN", "MODEL", "OUTPUT", "MARIAN", "CORPUS", "--output")
            ]
            needed = [name for name in needed if not (name == "MODEL" and command == "inspect")] or list(line)
            line.pop(draw.choice(needed))
            return self.case(command, line, may_pass=command in ("interpolate",) and "A" in line and "B" in line)
        words = {f"more{i}": mistakes.bad_word(draw) for i in range(3)}
        return self.case(command, {**line, **words})

    def damaged_table(self, draw: Random, folder: Path) -> Case:
        kind = draw.choice(["csv", "tsv", "jsonl", "jsonl", "gz"])
        path = folder / f"table.{kind}"
        if kind == "jsonl":
            path.write_text(mistakes.damage_rows(draw, ROWS, ("text", "label")))
        elif kind == "gz":
            ending, content = mistakes.compressed_badly(draw, (self.world / "table.csv").read_bytes())
            path = folder / f"table.csv{ending}"
            path.write_bytes(content)
        else:
            text = (self.world / f"table.{kind}").read_text()
            path.write_bytes(mistakes.damage_separated(draw, text, "," if kind == "csv" else "\t"))
        return self._with_table(draw, folder, path)

    def damaged_parquet(self, draw: Random, folder: Path) -> Case:
        import datetime

        import pyarrow as pa
        import pyarrow.parquet as pq

        path = folder / "table.parquet"
        if draw.random() < 0.6:
            shutil.copy(self.world / "table.parquet", path)
            mistakes.damage_bytes(draw, path)
            return self._with_table(draw, folder, path, may_pass=True)
        rows = [dict(row) for row in ROWS]
        values: list = draw.choice(
            [
                [b"\xff\xfe"] * len(rows), [1.5] * len(rows), [None] * len(rows), [{"a": 1}] * len(rows),
                [datetime.datetime(2020, 1, 1)] * len(rows), [[0.2, 0.9]] * len(rows), [float("nan")] * len(rows),
            ]
        )  # fmt: skip
        column = draw.choice(["text", "label"])
        table = pa.table({name: [row[name] for row in rows] for name in ("text", "label")})
        pq.write_table(table.set_column(table.schema.get_field_index(column), column, pa.array(values)), path)
        return self._with_table(draw, folder, path)

    def _with_table(self, draw: Random, folder: Path, path: Path, may_pass: bool = False) -> Case:
        if draw.random() < 0.7:
            return self.case("augment", self.good("augment", folder, IN=str(path)), path.name, may_pass=may_pass)
        which = draw.choice(["--train", "--test"])
        return self.case(
            "bench", self.good("bench", folder, **{which: str(path)}), path.name, "table", may_pass=may_pass
        )

    def damaged_pairs(self, draw: Random, folder: Path) -> Case:
        rows = [{"a": a, "b": b, "alpha": 0.5} for a, b in pairwise(TEXTS)]
        path = folder / draw.choice(["pairs.jsonl", "pairs.csv", "pairs.tsv"])
        if path.suffix == ".jsonl":
            text = mistakes.damage_rows(draw, rows, ("a", "b"))
            path.write_text(text)
        else:
            separator = "," if path.suffix == ".csv" else "\t"
            lines = ["a" + separator + "b", *(separator.join((row["a"], row["b"])) for row in rows)]
            path.write_bytes(mistakes.damage_separated(draw, "".join(f"{line}\n" for line in lines), separator))
        line = self.good("interpolate", folder, **{"--pairs": str(path), "--output": f"{folder}/out.jsonl"})
        # A file without rows is not a mistake here: nothing is requested and nothing is written.
        return self.case("interpolate", line, path.name, may_pass=len(path.read_bytes().splitlines()) <= 1)

    def damaged_sentences(self, draw: Random, folder: Path) -> Case:
        command, name = draw.choice([("calibrate", "--sentences"), ("inspect", "--sentences"), ("train", "CORPUS"), ("train", "--validation"), ("cut-base", "--corpus"), ("middles table", "CORPUS"), ("middles make", "CORPUS")])  # fmt: skip  # noqa: E501
        kind = draw.choice(["empty", "blank", "utf8", "json", "gz", "table", "binary", "share"])
        path = folder / "sentences.txt"
        content = {"empty": b"", "blank": b"\n \n", "utf8": b"fine\n\xff\n", "binary": bytes(17 * 2**20)}.get(kind, b"")
        if kind == "json":
            path = folder / "sentences.jsonl"
            content = mistakes.damage_rows(draw, [{"text": text} for text in TEXTS], ("text",)).encode()
        elif kind == "gz":
            ending, content = mistakes.compressed_badly(draw, "".join(f"{text}\n" for text in TEXTS).encode())
            path = folder / f"sentences.txt{ending}"
        elif kind == "table":
            path, content = folder / "sentences.csv", b"text\na\n"
        path.write_bytes(content)
        line = self.good(command, folder, **{name: str(path)})
        if kind == "share":
            line = self.good("train", folder, CORPUS=f"{self.world}/sentences.txt")
            line["more"] = f"{self.world}/sentences.txt={draw.choice(['2', '-1', 'nan', '0', 'x', 'inf', '1'])}"
            return self.case("train", line)
        # Blank texts in JSON lines are skipped, and an empty validation file means no validation.
        return self.case(
            command, line, may_pass=kind == "json" or (name == "--validation" and kind in ("empty", "blank"))
        )

    def damaged_plan(self, draw: Random, folder: Path) -> Case:
        values = {"row": "0", "partner": "1", "alpha": "0.5", "seed": "1"}
        column = draw.choice(list(values))
        bad = (
            ["x", "-1", "1.5", "nan", "", str(2**63), str(2**200), "1e3"]
            if column != "seed"
            else ["x", "-1", "1.5", str(2**63)]
        )
        if column == "alpha":
            bad = ["x", "-1", "1.5", "nan", "inf"]
        values[column] = draw.choice(bad)
        path = folder / draw.choice(["plan.csv", "plan.jsonl"])
        if draw.random() < 0.2:
            values.pop(column)
        if path.suffix == ".csv":
            path.write_text(",".join(values) + "\n" + ",".join(values.values()) + "\n")
        else:
            path.write_text(str(values).replace("'", '"') + "\n")
        return self.case("augment", self.good("augment", folder, **{"--plan": str(path)}))

    def damaged_model(self, draw: Random, folder: Path) -> Case:
        """A mistake in the folder of a model of any kind."""
        uses = [
            ("model", "interpolate", "--model", {"--engine": draw.choice(["auto", "torch"])}),
            ("model", "interpolate", "--model", {"--engine": "int8", "--sample": None}),
            ("attention", "interpolate", "--model", {"--engine": draw.choice(["int8", "torch"])}),
            ("model", "calibrate", "MODEL", {}),
            ("model", "export", "MODEL", {"--bits": draw.choice(["8", "16", "32"])}),
            ("model", "inspect", "MODEL", {}),
            ("model", "train", "--base", {}),
            ("model", "augment", "--model", {"--method": "linda"}),
            ("base", "train", "--base", {}),
            ("marian", "cut-base", "MARIAN", {}),
            ("encoder", "bench", "--encoder", {}),
            (
                "encoder",
                "augment",
                "--encoder",
                {"--partners": "nearest", "--method": "linda", "--model": f"{self.world}/model"},
            ),
            ("encoder", "augment", "--model", {"--method": "ssmba"}),
            ("teacher", "augment", "--teacher", {"--labels": "predicted"}),
            ("encoder", "inspect", "--lm", {}),
            ("base", "augment", "--translate", {"--method": "backtranslation"}),
        ]
        what, command, name, more = draw.choice(uses)
        place = folder / what
        shutil.copytree(self.world / what, place)
        file = mistakes.damage_folder(draw, place)
        line = self.good(command, folder, **{name: str(place)}) | more
        if name == "--translate":
            line.pop(name)
        case = self.case(command, line, may_pass=True)
        if name == "--translate":
            case.arguments[1:1] = ["--translate", str(place), f"{self.world}/base"]
        case.name += f" {what}/{file}"
        return case

    def damaged_state(self, draw: Random, folder: Path) -> Case:
        """Files that look like those of an earlier run: of training, a benchmark or an inspection."""
        kind = draw.choice(["training", "cells", "cell", "cell", "report", "ngrams"])
        if kind == "training":
            run = folder / "trained.training"
            run.mkdir()
            content = draw.choice(
                ["", "{}", "[]", "{" * 3000, '{"corpus": 3}', '{"corpus": ["x"], "steps": "a"}', "\0"]
            )
            (run / "settings.json").write_text(content)
            for name in draw.sample(["step-1", "step-x", "step-²", "step-0000007", "log.jsonl"], 2):
                (run / name).mkdir()
            return Case("train --resume", ["train", "--output", f"{folder}/trained", "--resume"], needles=("trained",))
        if kind == "ngrams":
            table = folder / "ngrams.safetensors"
            shutil.copy(self.world / table.name, table)
            mistakes.damage_bytes(draw, table)
            return self.case(
                "middles make", self.good("middles make", folder, **{"--table": str(table)}), may_pass=True
            )
        if kind == "cell":
            shutil.copytree(self.world / "results", folder / "results")
            for file in (folder / "results").iterdir():
                if file.is_file() and file.name != "commands.txt":
                    file.unlink()
            mistakes.damage_folder(draw, folder / "results" / "cells")
            case = Case("bench report", ["bench", "--output", f"{folder}/results"], may_pass=True)
            case.outputs = ("results/",)
            return case
        if kind == "cells":
            cells = folder / "results" / "cells"
            cells.mkdir(parents=True)
            content = draw.choice(["", "{}", "[]", "{" * 3000, '{"task": 5}', "null", "\0", "NaN"])
            (cells / "one.json").write_text(content)
            return Case("bench report", ["bench", "--output", f"{folder}/results"], needles=("one.json",))
        name = draw.choice(["report.json", "report.md", "outputs.jsonl"])
        (folder / "report").mkdir()
        (folder / "report" / name).write_text(draw.choice(["mine", "{}", "[1]", ""]))
        return self.case("inspect", self.good("inspect", folder), name)

    def strange_input_stream(self, draw: Random, folder: Path) -> Case:
        command, name = draw.choice([("interpolate", "--pairs"), ("augment", "IN"), ("train", "CORPUS"), ("calibrate", "--sentences"), ("inspect", "--sentences")])  # fmt: skip  # noqa: E501
        case = self.case(command, self.good(command, folder, **{name: "-"}))
        case.stdin = draw.choice(["unfed", "zero", "closed", "empty"])
        return case

    def taken_name(self, draw: Random, folder: Path) -> Case:
        """Files of the user where a run would write its own; one of them may be the input."""
        command = draw.choice(["augment", "export", "train", "cut-base", "interpolate"])
        line = self.good(command, folder)
        if command == "interpolate":
            line["--output"] = f"{folder}/out.csv.jsonl"
        output = Path(str(line.get("--output") or line["OUTPUT"])).name
        endings = [".part", ".labels.json", ".journal", ".training", ".tmp", ".logs"]
        for ending in draw.sample(endings, draw.randint(1, 3)):
            taken = folder / f"{output}{ending}"
            if draw.random() < 0.5:
                shutil.copy(self.world / "table.csv", taken)
            else:
                taken.mkdir()
                for name in ("run.json", "input.arrow", "notes.txt"):
                    (taken / name).write_text("mine")
            if command == "augment" and taken.is_file():
                line |= {"IN": str(taken), "--input-format": "csv"}
        case = self.case(command, line, may_pass=True)
        taken_names = {path.name for path in folder.iterdir()}
        written = {output, f"{output}.labels.json", f"{output}.training"}
        case.exact_outputs = tuple(written - taken_names)
        return case

    def too_much(self, draw: Random, folder: Path) -> Case:
        """More than can be computed."""
        billion = str(draw.randint(10**9, 10**12))
        command, name, more = draw.choice(
            [
                ("interpolate", "--ladder", {}), ("interpolate", "--beams", {}), ("interpolate", "--batch-tokens", {}),
                ("interpolate", "--n", {"--sample": None}), ("augment", "--per-row", {}), ("augment", "--total", {}),
                ("augment", "--workers", {}), ("augment", "--retries", {}), ("augment", "--batch-size", {}),
                ("bench", "--seeds", {}), ("bench", "--workers", {}), ("bench", "--epochs", {}),
                ("bench", "--batch-size", {}), ("bench", "--max-length", {}), ("calibrate", "--pairs", {}),
                ("inspect", "--pairs", {}), ("train", "--accumulate", {}), ("train", "--pairs", {}),
                ("train", "--max-length", {}), ("train", "--hold-out", {}), ("cut-base", "--pieces", {}),
            ]
        )  # fmt: skip
        return self.case(command, self.good(command, folder) | more | {name: billion}, billion, f"{int(billion):,}")

    def wrong_python_value(self, draw: Random, folder: Path) -> Case:
        return api.wrong_python_value(draw, self.world, folder)

    def one_file_for_two(self, draw: Random, folder: Path) -> Case:
        """The output would be the input."""
        own = folder / "own.csv"
        shutil.copy(self.world / "table.csv", own)
        other = draw.choice([str(own), f"{folder}/./own.csv", f"{folder}/link.csv"])
        if other.endswith("link.csv"):
            (folder / "link.csv").symlink_to(own)
        command = draw.choice(["augment", "plan", "train", "export", "inspect", "interpolate"])
        if command == "augment":
            line = self.good("augment", folder, IN=str(own), **{"--output": other})
        elif command == "plan":
            line = self.good("augment", folder, IN=str(own), **{"--save-plan": other})
        elif command == "train":
            line = self.good("train", folder, CORPUS=f"{self.world}/sentences.txt", **{"--output": other})
        elif command == "export":
            line = self.good("export", folder, OUTPUT=other)
        elif command == "inspect":
            line = self.good("inspect", folder, **{"--output": other})
        else:
            line = self.good("interpolate", folder, **{"--pairs": str(own), "--output": other})
        return self.case("augment" if command == "plan" else command, line)
