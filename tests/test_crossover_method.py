"""Splices and crossovers as methods: in Python, in `linda augment` and in `linda bench`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import linda
from linda import methods
from linda.cli import main
from linda.errors import LindaError
from linda.middles.ngrams import TrigramModel
from linda.middles.seams import trigram_search
from test_middles import SENTENCES

A, B = SENTENCES[0], SENTENCES[3]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "trigrams.safetensors"
    TrigramModel.build(SENTENCES, min_word_count=1, min_trigram_count=1).save(path)
    return path


def test_a_splice_joins_a_beginning_and_an_end():
    assert methods.load("splice").texts(["a b c d"], ["e f g h"], [0.5], [7]) == ["a b g h"]


def test_a_crossover_is_the_one_that_the_trigram_model_finds_best(table):
    first, second, search = trigram_search(A, B, TrigramModel.load(table))
    assert methods.load("crossover", trigrams=table).texts([A], [B], [0.5], [0]) == [
        search.best(0.5, 1)[0].text(first, second)
    ]


@pytest.mark.parametrize("name", ["splice", "crossover"])
def test_samples_depend_on_the_seed_alone(table, name):
    method = methods.load(name, **({"trigrams": table} if name == "crossover" else {})).sampling
    seeds = list(range(30))
    texts = method.texts([A] * 30, [B] * 30, [0.5] * 30, seeds)
    assert len(set(texts)) > 3
    assert [method.texts([A], [B], [0.5], [seed])[0] for seed in seeds] == texts


def test_texts_too_short_to_search_are_spliced(table):
    assert methods.load("crossover", trigrams=table).texts(["Yes"], ["Not at all"], [0.5], [0]) == ["Yes all"]


@pytest.mark.parametrize("name", ["splice", "crossover"])
def test_both_need_a_partner(table, name):
    method = methods.load(name, **({"trigrams": table} if name == "crossover" else {}))
    with pytest.raises(TypeError, match="partner"):
        method.texts([A], None, None, [0])


LABELS = [0, 0, 0, 0, 1, 1, 1, 1]
NO_TABLE = "crossover needs a trigram table (trigrams=FILE, --trigrams FILE); build one from text like yours"


def call(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.jsonl"
    rows = [{"text": text, "label": label} for text, label in zip(SENTENCES, LABELS, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_rows_are_crossed_in_python_and_by_the_command(table, source, tmp_path):
    rows = linda.augment({"text": SENTENCES, "label": LABELS}, method="crossover", trigrams=table, ratio="0.5")
    new = [row for row in rows if row["method"] == "crossover"]
    assert len(new) > 4
    method = methods.load("crossover", trigrams=table)
    for row in new[:2]:
        parents = SENTENCES[row["parent_a"]], SENTENCES[row["parent_b"]]
        assert row["text"] == method.texts(parents[:1], parents[1:], [0.5], [0])[0]
    arguments = ("--method", "crossover", "--trigrams", table, "--ratio", "0.5", "--output", tmp_path / "out.jsonl")
    result = call("augment", source, *arguments)
    assert result.exit_code == 0, result.stderr
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["text"] for row in written] == [row["text"] for row in rows]


def test_a_resumed_run_needs_the_same_table(table, source, tmp_path):
    other = tmp_path / "other.safetensors"
    TrigramModel.build(SENTENCES[:4], min_word_count=1).save(other)
    arguments = ("augment", source, "--output", f"{tmp_path}/parts/", "--method", "crossover", "--block-range", "0:0")
    assert call(*arguments, "--trigrams", table).exit_code == 0
    assert call(*arguments, "--trigrams", table).exit_code == 0
    assert "has trigrams" in call(*arguments, "--trigrams", other).stderr


def test_a_missing_table_is_told_with_the_command_that_builds_one(table, source, tmp_path):
    with pytest.raises(LindaError, match="linda middles table"):
        linda.augment({"text": SENTENCES, "label": LABELS}, method="crossover")
    (tmp_path / "no-table").write_text("text")
    for arguments, message in (
        (("--method", "crossover"), NO_TABLE),
        (("--method", "crossover", "--trigrams", "nowhere"), "cannot read nowhere: no such file or directory"),
        (("--method", "crossover", "--trigrams", tmp_path / "no-table"), "build one with `linda middles table`"),
        (("--method", "splice", "--trigrams", table), "only the method crossover uses one"),
        (("--method", "splice", "--raw-ratio"), "--raw-ratio has no effect"),
    ):
        result = call("augment", source, "--output", tmp_path / "out.jsonl", *arguments)
        assert result.exit_code == 2
        assert message in result.stderr
        assert len([line for line in result.stderr.splitlines() if line.startswith("linda: ")]) == 1


def test_bench_compares_crossovers(table, source, tmp_path):
    arguments = ("--train", source, "--test", source, "--student", "tfidf", "--seeds", 1, "--workers", 1)
    arguments += ("--folds", 0, "--output", tmp_path / "results", "--methods", "vanilla,splice,crossover")
    assert NO_TABLE in call("bench", *arguments).stderr
    assert not (tmp_path / "results").exists()
    result = call("bench", *arguments, "--trigrams", table)
    assert result.exit_code == 0, result.stderr
    cells = {
        cell["method"]: cell
        for cell in map(json.loads, map(Path.read_text, (tmp_path / "results" / "cells").iterdir()))
    }
    assert set(cells) == {"vanilla", "splice", "crossover"}
    assert cells["crossover"]["new_rows"] > 4
    assert cells["crossover"]["settings"]["trigrams"].startswith("trigrams.safetensors ")
