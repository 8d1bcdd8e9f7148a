"""The examples run unchanged, on small data."""

import runpy
import sys
from pathlib import Path

import pandas as pd
import pytest

from linda.augmentation import Augmenter
from linda.file_runs.file_pipeline import augment_file
from tiny_encoder import WORDS, save_tiny_bert

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def bigger(tmp_path: Path) -> Path:
    """Texts whose label is one of their words."""
    rows = [f"{first} {word} film,{word}" for word in ("red", "green", "hot") for first in WORDS[:12]]
    (tmp_path / "train.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    augment_file(Augmenter(method="eda"), tmp_path / "train.csv", tmp_path / "bigger.parquet")
    return tmp_path / "bigger.parquet"


def run(name: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


def test_pytorch(bigger: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    printed = run("soft_labels_pytorch.py", [str(bigger)], monkeypatch, capsys)
    losses = [float(line.split()[-1]) for line in printed.splitlines()]
    assert losses[-1] < losses[0] / 2


def test_transformers_trainer(
    bigger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(bigger), str(save_tiny_bert(tmp_path / "bert")), str(tmp_path / "trained")]
    printed = run("soft_labels_trainer.py", arguments, monkeypatch, capsys)
    assert float(printed.split()[-1]) < 1.3  # log 3 is chance; three separate yes-no losses would differ
    assert (tmp_path / "trained" / "model.safetensors").is_file()


def test_scikit_learn(bigger: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert float(run("soft_labels_sklearn.py", [str(bigger)], monkeypatch, capsys).split()[-1]) == 1.0


def test_imbalanced_learn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With the embedded model."""
    common = [f"The {first} film was a {second} one." for first in WORDS[:6] for second in WORDS[6:9]]
    rare = [f"Who wrote the {first} book?" for first in WORDS[:6]]
    frame = pd.DataFrame({"text": common + rare, "label": ["film"] * len(common) + ["book"] * len(rare)})
    frame.to_csv(tmp_path / "train.csv", index=False)
    lines = run("imbalanced_classes.py", [str(tmp_path / "train.csv"), "2"], monkeypatch, capsys).splitlines()
    assert [line[:14].strip() for line in lines] == ["none", "class weights", "oversampling", "LINDA"]
    assert all(float(line.split()[-1]) == 1.0 for line in lines)  # one word decides
