"""`linda calibrate` and `linda inspect`, on a model of random weights."""

import json
import shutil

import pytest
from click.testing import CliRunner

from linda.cli import main
from linda.config import LindaConfig

SENTENCES = ["the cat sat on a river.", "a dog ran in the city", "who was the old man?", "red is the small woman."]


@pytest.fixture
def model_folder(tiny_model_folder, tmp_path):
    return shutil.copytree(tiny_model_folder, tmp_path / "model")


@pytest.fixture
def sentence_file(tmp_path):
    path = tmp_path / "sentences.txt"
    path.write_text("\n".join(SENTENCES), encoding="utf-8")
    return path


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_calibrate_stores_rising_knots_and_leaves_the_weights(model_folder, sentence_file):
    weights = (model_folder / "model.safetensors").read_bytes()
    result = run("calibrate", model_folder, "--sentences", sentence_file, "--pairs", 3)
    assert result.exit_code == 0, result.output
    knots = LindaConfig.from_json(model_folder / "config.json").calibration
    assert knots[0] == (0.0, 0.0)
    assert knots[-1] == (1.0, 1.0)
    assert len(knots) > 2
    assert [asked for asked, _ in knots] == sorted({asked for asked, _ in knots})
    assert (model_folder / "model.safetensors").read_bytes() == weights
    assert len(result.stdout.splitlines()) == 1 + len(knots)


def test_calibrate_wants_a_folder_to_store_in(sentence_file, tmp_path):
    result = run("calibrate", tmp_path / "nowhere", "--sentences", sentence_file)
    assert result.exit_code == 2
    assert "nowhere" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_inspect_writes_report_outputs_and_figures(model_folder, sentence_file, tmp_path):
    output = tmp_path / "new" / "report"
    result = run("inspect", model_folder, "--sentences", sentence_file, "--pairs", 3, "--output", output, "--raw")
    assert result.exit_code == 0, result.output
    names = {"report.json", "report.md", "outputs.jsonl", "precision.png", "share.png", "conditions.png"}
    assert {path.name for path in output.iterdir()} == names
    report = json.loads((output / "report.json").read_text(encoding="utf-8"))
    assert report["about"]["pairs"] == 3
    assert report["raw"] is not None
    assert report["speed"]["rows"] == 33
    assert report["verdict"][0]["measure"] in result.stdout


def test_inspect_reads_jsonl_and_can_do_without_figures(model_folder, tmp_path):
    path = tmp_path / "sentences.jsonl"
    path.write_text("\n".join(json.dumps({"text": text}) for text in SENTENCES), encoding="utf-8")
    arguments = ("inspect", model_folder, "--sentences", path, "--pairs", 2, "--output", tmp_path, "--no-figures")
    assert run(*arguments).exit_code == 0
    assert not list(tmp_path.glob("*.png"))
    first = (tmp_path / "outputs.jsonl").read_bytes()
    assert run(*arguments).exit_code == 0
    assert (tmp_path / "outputs.jsonl").read_bytes() == first


def test_inspect_measures_perplexity_against_crossovers(model_folder, language_model_folder, tmp_path):
    sentences = tmp_path / "sentences.txt"
    sentences.write_text("the old cat sat on a small city\na red dog ran in the deep river\n", encoding="utf-8")
    table = tmp_path / "trigrams.safetensors"
    assert run("middles", "table", sentences, "--output", table).exit_code == 0
    settings = ("--pairs", 2, "--lm", language_model_folder, "--trigrams", table)
    result = run("inspect", model_folder, "--sentences", sentences, "--output", tmp_path / "out", *settings)
    assert result.exit_code == 0, result.output
    assert {"perplexity.png", "faithfulness.png"} <= {path.name for path in (tmp_path / "out").iterdir()}
    points = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))["perplexity"]["points"]
    assert {name: len(of) for name, of in points.items()} == {
        "outputs": 11,
        "splice": 11,
        "crossover": 11,
        "reranked": 1,
        "word_mix": 1,
        "shuffled": 1,
    }
    assert points["crossover"][5]["faithfulness"] == points["reranked"][0]["faithfulness"] == 1.0
    assert "relative to the best crossover" in result.stdout


def test_inspect_wants_a_language_model_for_trigrams(model_folder, sentence_file, tmp_path):
    settings = ("--output", tmp_path / "out", "--trigrams", "some-table")
    result = run("inspect", model_folder, "--sentences", sentence_file, *settings)
    assert result.exit_code == 2
    assert "some-table" in result.stderr
    assert "--lm" in result.stderr


def test_inspect_help_has_groups_defaults_and_examples():
    text = run("inspect", "--help").stdout
    assert all(f"\n{heading}:\n" in text for heading in ("Input and output", "Pairs", "Measures", "Execution"))
    assert "default: 500" in text
    assert text.count("    linda inspect ") == 2
    assert text.rindex("linda inspect") > text.rindex("--engine")


def test_inspect_names_a_language_model_that_is_none(model_folder, sentence_file, tmp_path):
    result = run(
        "inspect", model_folder, "--sentences", sentence_file, "--output", tmp_path / "out", "--lm", tmp_path / "no-lm"
    )
    assert result.exit_code == 2
    assert "no-lm" in result.stderr
    assert len(result.stderr.splitlines()) == 1
