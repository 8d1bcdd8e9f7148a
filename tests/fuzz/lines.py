"""Good command lines, and what their options take: a case changes one value of them."""

import shutil
from pathlib import Path

from fuzz.running import Case
from fuzz.world import TEXTS

# Options that are not told apart by their type: numbers in a text, or files that are not declared so.
TEXTS_WITH_RULES = ("--alpha", "--weights", "--ratio", "--balance", "--protect", "--block-range", "--device", "--decoder-layers", "--shots", "--imbalance", "--label-noise", "--metric", "--baseline", "--student", "--learning-rate", "--precision", "--methods", "--tasks", "--method", "--host", "--token")  # fmt: skip  # noqa: E501
PATHS = {
    "interpolate": {"--pairs": "in", "--output": "out", "--model": "in", "--trigrams": "in"},
    "augment": {
        "IN": "in", "--output": "out", "--plan": "in", "--save-plan": "out", "--model": "in", "--teacher": "in",
        "--unlabelled": "in", "--encoder": "in", "--trigrams": "in",
    },
    "bench": {
        "--train": "in", "--test": "in", "--output": "out", "--data": "in", "--encoder": "in", "--model": "in",
        "--masked-model": "in", "--teacher-encoder": "in", "--cache": "out", "--trigrams": "in",
    },
    "train": {"CORPUS": "in", "--output": "out", "--base": "in", "--validation": "in", "--middles": "in"},
    "calibrate": {"MODEL": "in", "--sentences": "in"},
    "export": {"MODEL": "in", "OUTPUT": "out"},
    "inspect": {"MODEL": "in", "--sentences": "in", "--output": "out", "--lm": "in", "--trigrams": "in"},
    "cut-base": {"MARIAN": "in", "--corpus": "in", "--output": "out"},
    "middles table": {"CORPUS": "in", "--output": "out"},
    "middles make": {"CORPUS": "in", "--table": "in", "--output": "out", "--lm": "in"},
    "serve": {"--model": "in", "--trigrams": "in", "--bench": "in"},
}  # fmt: skip
COMMANDS = tuple(PATHS)

# Options without which another one has no effect. WORLD is the folder of good files.
NEEDED = {
    ("augment", "--model"): {"--method": "linda"},
    ("augment", "--teacher"): {"--labels": "predicted"},
    ("augment", "--unlabelled"): {"--method": "splice", "--labels": "predicted", "--teacher": "WORLD/teacher"},
    ("augment", "--encoder"): {"--method": "splice", "--partners": "nearest"},
    ("augment", "--trigrams"): {"--method": "crossover"},
    ("bench", "--model"): {"--methods": "vanilla,linda"},
    ("bench", "--data"): {"--tasks": "rte"},
    ("bench", "--masked-model"): {"--methods": "vanilla,ssmba"},
    ("bench", "--teacher-encoder"): {"--methods": "vanilla,eda+labels=predicted"},
    ("bench", "--trigrams"): {"--methods": "vanilla,crossover"},
    ("bench", "--rare"): {"--imbalance": "1:2"},
    ("inspect", "--trigrams"): {"--lm": "WORLD/encoder"},
}
# Options that cannot be given together with another one.
EXCLUDED = {("augment", "--save-plan"): ("--output",), ("bench", "--data"): ("--train", "--test")}

# Values of texts with rules that are close to a good one.
ALMOST = {
    ("interpolate", "--weights"): ["x", "0.5", "0,0", "nan,1", "-1,2", "1,2,3", "inf,1", "1e400,1", ",", "1;2"],
    ("augment", "--balance"): ["x", "-1", "0", "nan", "inf", "good=", "=5", "zz=5", "good=-1", "1e30", "9" * 50],
    ("augment", "--protect"): ["", ",", "none.txt", "regex:(", "regex:[z-a]", "regex:(?P<a", "regex:a**", "regex:\\"],
    ("augment", "--block-range"): ["", "x", "1", "1:", ":1", "5:1", "-1:2", f"0:{10**20}", "a:b", "²:3"],
    ("bench", "--imbalance"): ["x", "1", "1:", "0:5", "5:1", "-1:4", "natural,1:2", f"1:{10**20}", "1:²", "1:2:3"],
    ("bench", "--label-noise"): ["x", "-0.1", "1", "nan", "2", "inf", "0.2,x", "1e400"],
    ("bench", "--metric"): ["", "x", "accuracy:good", "recall:", "recall:zz", "macro_f1_tuned_tuned", "ece_tuned"],
    ("bench", "--baseline"): ["", "x", ",", "linda", "eda", "Vanilla"],
    ("bench", "--student"): ["", "x", "zz:b", "os:path", "os:", "::", "json:dumps", ":x", "linda.cli:zz"],
    ("bench", "--rare"): ["x", "", " ", "good,bad", "Good"],
    ("serve", "--host"): ["zz", "0.0.0.0", "256.1.1.1", "::", "192.0.2.1", "127.0.0.1:80", "http://localhost", " "],
    ("serve", "--token"): ["", "short", "x" * 15, "é" * 20, "a b\n" * 6],
}


class Lines:
    """Command lines that work, on the files and models of a world."""

    def __init__(self, world: Path) -> None:
        self.world = world

    def good(self, command: str, folder: Path, **places: str) -> dict[str, str | None]:
        """Options and arguments (in capitals) of a command line that works, quickly. places: others than these."""
        w = self.world
        lines: dict[str, dict[str, str | None]] = {
            "interpolate": {"A": TEXTS[0], "B": TEXTS[-1], "--model": f"{w}/model", "--beams": "2"},
            "augment": {"IN": f"{w}/table.csv", "--output": f"{folder}/out.csv", "--method": "eda"},
            "bench": {
                "--train": f"{w}/table.csv", "--test": f"{w}/table.jsonl", "--output": f"{folder}/results",
                "--encoder": f"{w}/encoder", "--methods": "vanilla", "--seeds": "1", "--epochs": "1",
                "--workers": "1", "--learning-rate": "0.001", "--max-length": "16",
            },
            "train": {
                "CORPUS": f"{w}/sentences.txt", "--output": f"{folder}/trained", "--base": f"{w}/base",
                "--steps": "1", "--pairs": "2", "--hold-out": "2", "--no-calibration": None,
            },
            "calibrate": {"MODEL": f"{folder}/model", "--sentences": f"{w}/sentences.txt", "--pairs": "1"},
            "export": {"MODEL": f"{w}/model", "OUTPUT": f"{folder}/smaller"},
            "inspect": {
                "MODEL": f"{w}/model", "--sentences": f"{w}/sentences.txt", "--output": f"{folder}/report",
                "--pairs": "1", "--no-figures": None,
            },
            "cut-base": {
                "MARIAN": f"{w}/marian", "--corpus": f"{w}/sentences.txt", "--output": f"{folder}/cut",
                "--pieces": "300", "--decoder-layers": "0",
            },
            "middles table": {"CORPUS": f"{w}/sentences.txt", "--output": f"{folder}/out.safetensors"},
            "middles make": {
                "CORPUS": f"{w}/sentences.txt", "--table": f"{w}/ngrams.safetensors", "--output": f"{folder}/out",
                "--pairs": "1", "--ratios": "1",
            },
            "serve": {"--model": f"{w}/model", "--port": "0", "--no-open": None},  # never good alone: it would stay up
        }  # fmt: skip
        if command == "calibrate" and "MODEL" not in places:
            shutil.copytree(w / "model", folder / "model")
        line = lines[command] | places
        for name in places:
            needed = NEEDED.get((command, name), {})
            line |= {other: value.replace("WORLD", str(w)) for other, value in needed.items() if other not in places}
            for other in EXCLUDED.get((command, name), ()):
                line.pop(other)
        if "--pairs" in places and command == "interpolate":
            line = {name: value for name, value in line.items() if name not in ("A", "B")}
        return line

    def case(self, command: str, line: dict[str, str | None], *needles: str, may_pass: bool = False) -> Case:
        arguments = command.split()
        for name, value in line.items():
            if name.startswith("--"):
                arguments += [name] if value is None else [f"{name}={value}"]
        words = [value for name, value in line.items() if not name.startswith("--") and value is not None]
        outputs = ("out", "results", "trained", "model", "smaller", "report", "cut", ".linda", ".out", "plan.out")
        return Case(command, [*arguments, "--", *words], needles=needles, may_pass=may_pass, outputs=outputs)
