"""`linda middles table` and `linda middles make`, and training on what they made."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from safetensors.numpy import load_file, save_file

from linda.cli import main
from linda.middles import making
from linda.middles.ngrams import TrigramModel
from linda.model import LindaModel
from test_middles import SENTENCES
from tiny_models import language_model_of_sentences


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["middles", *map(str, arguments)])


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "SHARD_PAIRS", 6)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(sentence + "\n" for sentence in SENTENCES * 4)
    return path


@pytest.fixture
def table(corpus: Path, tmp_path: Path) -> Path:
    path = tmp_path / "trigrams.safetensors"
    result = run("table", corpus, "--output", path)
    assert result.exit_code == 0, result.output
    return path


@pytest.fixture(scope="module")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model of random weights over the words of the sentences; a space belongs to the word after it."""
    folder = tmp_path_factory.mktemp("lm")
    for part in language_model_of_sentences(SENTENCES):
        part.save_pretrained(folder)
    return folder


def middles_in(folder: Path) -> list[dict[str, Any]]:
    rows = []
    for path in sorted(folder.glob("middles-*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            rows += [json.loads(line) for line in file]
    return rows


def test_a_table_counts_the_words_of_all_corpora(corpus: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("question\twho knows the answer\n" * 4, encoding="utf-8")
    result = run("table", corpus, other, "--output", tmp_path / "table.safetensors")
    assert result.exit_code == 0, result.output
    model = TrigramModel.load(tmp_path / "table.safetensors")
    assert {"river", "answer"} < set(model.vocabulary)
    assert f"{len(model.vocabulary):,} words" in result.stdout


@pytest.mark.parametrize("ranked", [False, True])
def test_middles_are_made_of_both_texts(
    corpus: Path, table: Path, language_model: Path, tmp_path: Path, ranked: bool
) -> None:
    output = tmp_path / "middles"
    lm = ["--lm", language_model] if ranked else []
    result = run("make", f"{corpus}=0.5", "--table", table, *lm, "--pairs", 11, "--output", output, "--restyled", 0)
    assert result.exit_code == 0, result.output
    assert "2 shards of 6 pairs" in result.stdout
    rows = middles_in(output)
    assert len(rows) > 12
    assert any(row["others"] for row in rows) == ranked
    for row in rows:
        assert {*row["target"].split()} <= {*row["a"].split(), *row["b"].split()}
        assert row["target"] not in (row["a"], row["b"])
        assert abs(row["share"] - row["alpha"]) <= 0.1001


def test_an_interrupted_run_is_resumed_and_processes_share_the_work(corpus: Path, table: Path, tmp_path: Path) -> None:
    common = ["make", corpus, "--table", table, "--pairs", 18]
    assert run(*common, "--output", tmp_path / "whole").exit_code == 0
    assert run(*common, "--output", tmp_path / "parts", "--every", 2, "--offset", 1).exit_code == 0
    assert len(list((tmp_path / "parts").glob("middles-*"))) == 1
    assert run(*common, "--output", tmp_path / "parts").exit_code == 0
    assert middles_in(tmp_path / "parts") == middles_in(tmp_path / "whole")


def test_what_is_made_can_be_learnt_from(corpus: Path, table: Path, tiny_base_folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "middles"
    assert run("make", corpus, "--table", table, "--pairs", 18, "--output", output).exit_code == 0
    options = ["--middles", output, "--base", tiny_base_folder, "--output", tmp_path / "model"]
    options += ["--steps", 1, "--pairs", 4, "--softmax-sample", 0]
    result = CliRunner().invoke(main, ["train", *map(str, options)])
    assert result.exit_code == 0, result.output
    assert LindaModel.from_pretrained(tmp_path / "model").config.mixing == "attention"


def damaged(table: Path, what: str) -> None:
    if what == "cut off":
        table.write_bytes(table.read_bytes()[:-100])
        return
    arrays = load_file(table)
    if what == "another file":
        arrays = {"weight": arrays["unigrams"]}
    elif what == "words without counts":
        arrays["unigrams"] = arrays["unigrams"][:-2]
    elif what == "trigrams without counts":
        arrays["trigram_counts"] = arrays["trigram_counts"][:-1]
    save_file(arrays, table)


@pytest.mark.parametrize("what", ["cut off", "another file", "words without counts", "trigrams without counts"])
def test_a_damaged_table_is_refused(corpus: Path, table: Path, tmp_path: Path, what: str) -> None:
    damaged(table, what)
    result = run("make", corpus, "--table", table, "--output", tmp_path / "out", "--pairs", 6)
    assert_refused(result, "is not an n-gram table; build one with `linda middles table`")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["table", "MISSING", "--output", "OUT"], "missing.txt"),
        (["table", "EMPTY", "--output", "OUT"], "no sentence"),
        (["table", "CORPUS", "--output", "NOWHERE"], "nowhere"),
        (["make", "CORPUS", "--table", "MISSING", "--output", "OUT"], "no such file or directory"),
        (["make", "MISSING", "--table", "TABLE", "--output", "OUT"], "missing.txt"),
        (["make", "CORPUS", "MISSING", "--table", "TABLE", "--output", "OUT"], "missing.txt"),
        (["make", "CORPUS=0", "--table", "TABLE", "--output", "OUT"], "must be a positive number"),
        (["make", "EMPTY", "--table", "TABLE", "--output", "OUT"], "no two sentences"),
        (["make", "CORPUS", "--table", "TABLE", "--lm", "MISSING", "--output", "OUT"], "cannot be read as a causal"),
        (["make", "CORPUS", "--table", "TABLE", "--output", "OUT", "--pairs", "0"], "0 is not in the range"),
        (["make", "CORPUS", "--table", "TABLE", "--output", "OUT", "--pairs", "9999999999"], "is not in the range"),
        (["make", "CORPUS", "--table", "TABLE", "--output", "OUT", "--ratios", "10"], "is not in the range"),
        (["make", "CORPUS", "--table", "TABLE", "--output", "OUT", "--restyled", "2"], "is not in the range"),
        (["make", "CORPUS", "--table", "TABLE", "--output", "FILE"], "corpus.txt.gz"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    corpus: Path, table: Path, tmp_path: Path, arguments: list[str], expected: str
) -> None:
    (tmp_path / "empty.txt").write_text("\n\n")
    names = {
        "CORPUS": corpus,
        "FILE": corpus,
        "TABLE": table,
        "MISSING": tmp_path / "missing.txt",
        "EMPTY": tmp_path / "empty.txt",
        "OUT": tmp_path / "out",
        "NOWHERE": tmp_path / "nowhere" / "table.safetensors",
        "CORPUS=0": f"{corpus}=0",
    }
    result = run(*(names.get(name, name) for name in arguments))
    assert_refused(result, expected)
    assert not (tmp_path / "out").exists()


def assert_refused(result: Result, expected: str) -> None:
    assert result.exit_code == 2, result.output
    assert expected in result.stderr
    messages = [line for line in result.stderr.strip().splitlines() if not line.startswith(("Usage", "Try", "\n"))]
    assert len([line for line in messages if line]) == 1


def test_a_pipe_or_a_device_is_not_replaced_by_the_table(tmp_path: Path) -> None:
    corpus, pipe = tmp_path / "corpus.txt", tmp_path / "pipe"
    corpus.write_text("the cat sat on the river\n")
    os.mkfifo(pipe)
    result = run("table", corpus, "--output", pipe)
    assert result.exit_code == 2
    assert f"cannot write {pipe}: it is a device or a pipe" in result.stderr
    assert pipe.is_fifo()
