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


def test_inspect_names_a_language_model_that_is_none(model_folder, sentence_file, tmp_path):
    result = run(
        "inspect", model_folder, "--sentences", sentence_file, "--output", tmp_path / "out", "--lm", tmp_path / "no-lm"
    )
    assert result.exit_code == 2
    assert "no-lm" in result.stderr
    assert len(result.stderr.splitlines()) == 1
