"""The kind of model in a folder, and the message if it cannot be loaded."""

from pathlib import Path

import pytest

from linda.errors import LindaError
from linda.model import LindaModel
from linda.model.pretrained import ModelKind, find_device, kind_of_model
from tiny_encoder import save_tiny_bert


def test_kinds(tiny_model_folder: Path, tiny_base_folder: Path, tmp_path: Path) -> None:
    assert kind_of_model(tiny_model_folder) == ModelKind.LINDA
    assert kind_of_model(str(tiny_base_folder)) == ModelKind.TRANSFORMERS
    assert kind_of_model(tmp_path) is None
    assert kind_of_model("sentence-transformers/all-MiniLM-L6-v2") is None
    (tmp_path / "model.gguf").touch()
    assert kind_of_model(tmp_path) == kind_of_model(tmp_path / "model.gguf") == ModelKind.GGUF
    (tmp_path / "config.json").write_text("no JSON")
    assert kind_of_model(tmp_path) == ModelKind.TRANSFORMERS
    (tmp_path / "classifier.json").touch()
    assert kind_of_model(tmp_path) == ModelKind.CLASSIFIER


def test_a_base_must_be_an_encoder_decoder(tmp_path: Path) -> None:
    save_tiny_bert(tmp_path)
    with pytest.raises(LindaError, match="is not an encoder-decoder"):
        LindaModel.from_seq2seq(tmp_path)


def test_devices() -> None:
    assert find_device("cpu").type == "cpu"
    with pytest.raises(LindaError, match="abacus"):
        find_device("abacus")
