"""The command `linda interpolate`: output streams, and one line for every error."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from linda.cli import main
from linda.engines.int8_engine import Int8Engine
from linda.interpolation import Interpolator

A, B = "the cat sat on the old red river.", "where is the small city?"


@pytest.fixture(scope="module")
def linda(tiny_model_folder: Path) -> Interpolator:
    return Interpolator.from_pretrained(tiny_model_folder)


@pytest.fixture
def run(tiny_model_folder: Path, linda: Interpolator, monkeypatch: pytest.MonkeyPatch):
    """Run the command in this process on the tiny model, which is loaded only once."""
    load = Interpolator.from_pretrained

    def load_once(path: str | None, **settings: str) -> Interpolator:
        is_known = path == str(tiny_model_folder) and set(settings.values()) == {"auto"}
        return linda if is_known else load(path, **settings)

    monkeypatch.setattr(Interpolator, "from_pretrained", load_once)

    def run(*arguments: str, model: Path | None = tiny_model_folder, input: str | bytes = "") -> Result:
        chosen = [] if model is None else ["--model", str(model)]
        return CliRunner().invoke(main, ["interpolate", *arguments, *chosen], input=input)

    return run


@pytest.fixture
def pairs_file(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text(f"a\tb\n{A}\t{B}\nthe 漢字 🦋\ta dog\n", encoding="utf-8")
    return path


def test_the_text_and_nothing_else(run, linda: Interpolator) -> None:
    result = run(A, B, "--alpha", "0.3")
    assert result.exit_code == 0
    assert result.stdout == linda.mix(A, B, 0.3) + "\n"
    assert result.stderr == ""
    assert run(A, B).stdout == linda.mix(A, B, 0.5) + "\n"


def test_several_ratios_are_a_table_in_the_order_asked_for(run, linda: Interpolator) -> None:
    lines = [line.split("\t") for line in run(A, B, "--alpha", "1, 0.25,0").stdout.splitlines()]
    assert lines == [[shown, linda.mix(A, B, float(shown))] for shown in ("1", "0.25", "0")]


def test_a_ladder_goes_from_b_to_a(run, linda: Interpolator) -> None:
    lines = [line.split("\t") for line in run(A, B, "--ladder", "4").stdout.splitlines()]
    assert [shown for shown, _ in lines] == ["0", "0.3333", "0.6667", "1"]
    assert [text for _, text in lines] == linda.mix([A] * 4, [B] * 4, [0, 1 / 3, 2 / 3, 1])


def test_json(run, linda: Interpolator) -> None:
    [row] = map(json.loads, run(A, "漢字 🦋", "--json").stdout.splitlines())
    assert row == {"a": A, "b": "漢字 🦋", "alpha": 0.5, "text": linda.mix(A, "漢字 🦋", 0.5)}
    assert "漢字" in run(A, "漢字 🦋", "--json").stdout  # readable, not escaped


def test_candidates_and_decoding_settings_reach_the_model(run, linda: Interpolator) -> None:
    assert run(A, B, "--n", "3").stdout.splitlines() == linda.mix(A, B, 0.5, n=3)
    assert run(A, B, "--beams", "1").stdout == linda.mix(A, B, 0.5, beams=1) + "\n"
    drawn = run(A, B, "--sample", "--temperature", "0.8", "--top-p", "0.9", "--seed", "3", "--n", "2").stdout
    assert drawn.splitlines() == linda.mix(A, B, 0.5, n=2, sample=True, temperature=0.8, top_p=0.9, seed=3)
    assert run(A, B, "--sample", "--seed", "4").stdout != run(A, B, "--sample", "--seed", "5").stdout


def test_raw(run, linda: Interpolator, monkeypatch: pytest.MonkeyPatch) -> None:
    uncalibrated = linda.mix(A, B, 0.5, raw=True)
    monkeypatch.setattr(linda.config, "calibration", [(0.0, 0.0), (0.5, 1.0), (1.0, 1.0)])
    assert (
        run(A, B, "--alpha", "0.5").stdout
        == linda.mix(A, B, 1.0, no_repeat_ngram=3, withheld=linda.tokens.bytes) + "\n"
    )
    assert run(A, B, "--alpha", "0.5", "--raw").stdout == uncalibrated + "\n"


def test_pairs_to_a_file(run, linda: Interpolator, pairs_file: Path, tmp_path: Path) -> None:
    output = tmp_path / "mixed.jsonl"
    result = run("--pairs", str(pairs_file), "--alpha", "0,0.5", "--output", str(output), "--batch-tokens", "8")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    rows = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert [(row["a"], row["alpha"]) for row in rows] == [(A, 0), (A, 0.5), ("the 漢字 🦋", 0), ("the 漢字 🦋", 0.5)]
    assert [row["text"] for row in rows] == linda.mix(
        [row["a"] for row in rows], [row["b"] for row in rows], [0, 0.5] * 2
    )
    assert list(rows[0]) == ["a", "b", "alpha", "text"]


def test_pairs_from_standard_input_with_ratios_of_their_own(run, linda: Interpolator) -> None:
    lines = [{"a": A, "b": B, "alpha": 0.2}, {"a": B, "b": A}]
    result = run("--pairs", "-", input="".join(json.dumps(line) + "\n" for line in lines))
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["alpha"] for row in rows] == [0.2, 0.5]
    assert [row["text"] for row in rows] == linda.mix([A, B], [B, A], [0.2, 0.5])
    again = run("--pairs", "-", "--alpha", "0.9", input=result.stdout)  # the output is valid input
    assert [json.loads(line)["alpha"] for line in again.stdout.splitlines()] == [0.9, 0.9]


def test_three_texts_with_weights(run, tiny_attention_folder: Path) -> None:
    c = "who saw one man with four blue birds?"
    exact = Interpolator.from_pretrained(tiny_attention_folder)
    weighted = run(A, B, c, "--weights", "0.5, 0.3,0.2", model=tiny_attention_folder)
    assert weighted.stdout == exact.mix([A, B, c], weights=[0.5, 0.3, 0.2]) + "\n"
    drawn = run(A, B, c, "--n", "2", "--sample", "--seed", "3", "--json", model=tiny_attention_folder)
    rows = [json.loads(line) for line in drawn.stdout.splitlines()]
    assert [row["text"] for row in rows] == exact.mix([A, B, c], n=2, sample=True, seed=3)
    assert rows[0]["texts"] == [A, B, c]
    assert rows[0]["weights"] == pytest.approx([1 / 3] * 3)
    assert run(A, B, "--weights", "3,7", model=tiny_attention_folder).stdout == exact.mix(A, B, 0.3) + "\n"


def test_output_appears_only_when_whole(run, pairs_file: Path, tmp_path: Path) -> None:
    with pairs_file.open("ab") as file:
        file.write(b"\xff\tx\n")
    output = tmp_path / "mixed.jsonl"
    result = run("--pairs", str(pairs_file), "--output", str(output), "--batch-tokens", "1")
    assert result.exit_code == 2
    assert "line 4: not UTF-8" in result.stderr
    assert list(tmp_path.iterdir()) == [pairs_file]


def test_a_text_beyond_the_window_is_mixed_without_a_word_of_warning(run, linda: Interpolator) -> None:
    long = "The cat sat. " * 100
    result = run(long, "Who is it?", "--alpha", "1")
    assert result.stdout == linda.mix(long, "Who is it?", 1.0) + "\n"
    assert result.stderr == ""


def assert_one_line(result: Result, words: str) -> None:
    assert result.exit_code == 2
    assert result.stdout == ""
    assert words in result.stderr
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([A], "give two texts, as in linda interpolate A B"),
        ([A, ""], "text B is empty"),
        (["\n", B], "text A is empty"),
        ([A, B, "--alpha", "1.5"], "--alpha is 1.5; it must lie between 0"),
        ([A, B, "--alpha", "half"], "--alpha is 'half', not a number"),
        ([A, B, "--alpha", "nan"], "--alpha is nan"),
        ([A, B, "--alpha", "0.1,"], "--alpha is '', not a number"),
        ([A, B, "--alpha", "0.5", "--ladder", "3"], "give either --alpha or --ladder"),
        ([A, B, "--pairs", "-"], "either two texts or --pairs"),
        ([A, B, A, "--alpha", "0.5"], "--alpha, --ladder and --pairs are for two texts; use --weights"),
        ([A, B, A, "--ladder", "3"], "--alpha, --ladder and --pairs are for two texts"),
        (["--weights", "1,2", "--pairs", "-"], "--alpha, --ladder and --pairs are for two texts"),
        ([A, B, ""], "text 3 is empty"),
        ([A, "--weights", "1"], "got 1 text to mix; give two or more"),
        ([A, B, A, "--weights", "0.5,0.5"], "got 2 weights for 3 texts"),
        ([A, B, A, "--weights", "0.5,x,0.5"], "--weights has 'x', not a number"),
        ([A, B, A, "--weights", "1,-1,1"], "weight 2 is -1.0; it must be a number of 0 or more"),
        ([A, B, "who is it?"], "3 texts can be mixed only by a model that mixes by attention"),
        (["--pairs", "none.tsv"], "cannot read none.tsv: no such file"),
        ([A, B, "--n", "5"], "n=5 is more than beams=4"),
        ([A, B, "--top-p", "0.5"], "applies only to sampling"),
        ([A, B, "--output", "no/such/folder.jsonl"], "does not exist"),
        ([A, B, "--output", "mixed.csv"], "is written as JSON lines; use a name that ends in .jsonl"),
        (["--pairs", "p.jsonl", "--output", "./p.jsonl"], "are the same file"),
        ([A, B, "--seed", "-1"], "seed is -1; it must be a whole number"),
        ([A, B, "--batch-tokens", "0"], "'--batch-tokens': 0"),
        ([A, B, "--device", "abacus"], "device 'abacus'"),
    ],
)
def test_a_mistake_is_one_line(run, arguments: list[str], words: str) -> None:
    assert_one_line(run(*arguments), words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a\tc\nx\ty\n", "no column 'b'"),
        (b"a\tb\nx\ty\n\xe9\ty\n", "line 3: not UTF-8"),
        (b"a\tb\nx\t\n", "line 2: b is empty"),
        (b'{"a": "x", "b": "y", "alpha": 2}\n', "line 1: alpha is 2"),
    ],
)
def test_a_bad_file_of_pairs_is_one_line(run, content: bytes, words: str) -> None:
    assert_one_line(run("--pairs", "-", input=content), words)


def test_a_folder_that_is_no_model_is_one_line(run, tmp_path: Path, tiny_base_folder: Path) -> None:
    assert_one_line(run(A, B, model=tmp_path), "not a LINDA model")
    assert_one_line(run(A, B, model=tmp_path / "none"), "no model folder")
    assert_one_line(run(A, B, model=tiny_base_folder), "not a LINDA model")


@pytest.mark.parametrize("damage", ["cut", "garbage", "missing", "tokenizer", "layers"])
def test_damaged_model_is_one_line(run, tmp_path: Path, tiny_model_folder: Path, damage: str) -> None:
    for file in tiny_model_folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = tmp_path / "model.safetensors"
    if damage == "cut":
        weights.write_bytes(weights.read_bytes()[:-100])
    elif damage == "garbage":
        weights.write_bytes(b"\xff" * 1000)
    elif damage == "missing":
        weights.unlink()
    elif damage == "layers":
        config = tmp_path / "config.json"
        config.write_text(config.read_text().replace('"encoder_layers": 1', '"encoder_layers": 2'))
    else:
        (tmp_path / "tokenizer.json").write_text("{}")
    name = {"tokenizer": "tokenizer", "layers": "does not match config.json"}.get(damage, "model.safetensors")
    assert_one_line(run(A, B, model=tmp_path), name)


def test_no_embedded_model_is_one_line(run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("linda.model.checkpoint.EMBEDDED", tmp_path / "none")
    assert_one_line(run(A, B, model=None), "no embedded model")


def test_mistakes_are_told_before_torch_is_imported() -> None:
    code = (
        "import sys; from linda.cli import main\n"
        "try: main(['interpolate', 'a', '', '--pairs', 'x'])\n"
        "finally: print(sorted({'torch', 'transformers', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "[]\n")


def test_the_fast_engine_answers_without_transformers(tiny_model_folder: Path) -> None:
    """Importing it takes longer than everything else together."""
    command = ["interpolate", A, B, "--model", str(tiny_model_folder), "--device", "cpu"]
    code = (
        f"import sys; from linda.cli import main; main({command}, standalone_mode=False)\n"
        "heavy = {'transformers', 'huggingface_hub', 'accelerate', 'datasets', 'pandas', 'pyarrow', 'scipy', 'sympy'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    text, heavy = done.stdout.splitlines()
    assert text == Interpolator.from_pretrained(tiny_model_folder, device="cpu", engine="int8").mix(A, B)
    assert heavy == "[]"


def test_an_engine_that_cannot_run_is_one_line_with_the_way_out(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Int8Engine, "why_not", staticmethod(lambda base, device: "this processor is too old"))
    assert_one_line(run(A, B, "--engine", "int8"), "this processor is too old; use the torch engine (--engine torch)")
    assert run(A, B, "--engine", "torch").exit_code == 0
    assert "'auto', 'int8', 'torch'" in run(A, B, "--engine", "steam").stderr


def test_help_needs_no_heavy_import() -> None:
    code = (
        "import sys, time; from linda.cli import main; main(['--help'], standalone_mode=False)\n"
        "print(time.process_time(), sorted({'torch', 'transformers', 'numpy', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, heavy = done.stdout.splitlines()[-1].split(maxsplit=1)
    assert heavy == "[]"
    assert float(seconds) < 0.5


def test_a_closed_pipe_and_an_untold_locale_are_quiet(tiny_model_folder: Path, tmp_path: Path) -> None:
    """The real process: no output of libraries, and no error about a closed pipe."""
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text((json.dumps({"a": A, "b": "漢字 🦋"}) + "\n") * 3, encoding="utf-8")
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as stdout:
        done = subprocess.run(
            [sys.executable, "-m", "linda", "interpolate", "--pairs", str(pairs), "--model", str(tiny_model_folder)],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    assert done.stderr == ""


def test_standard_output_is_utf_8_whatever_the_locale() -> None:
    command = [sys.executable, "-m", "linda", "interpolate", "漢字 🦋", "漢字 🦋"]
    done = subprocess.run(command, env=os.environ | {"PYTHONIOENCODING": "ascii"}, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "漢字 🦋\n".encode(), b"")
