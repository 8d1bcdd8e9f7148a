"""What several test files share: a LINDA model of some thousand random weights, whole in a folder."""

import copy
import os
from pathlib import Path

# Before any Hugging Face library is imported: no test reaches for the network.
os.environ["HF_HUB_OFFLINE"] = "1"

import pytest

from linda.interpolation import Interpolator
from linda.model import LindaModel
from linda.model.tokens import Tokens
from read_back import ReadBack
from tiny_models import save_tiny_base


@pytest.fixture(scope="session")
def tiny_base_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_base(tmp_path_factory.mktemp("models") / "tiny-base")


@pytest.fixture(scope="session")
def tiny_model_folder(tiny_base_folder: Path) -> Path:
    """A LINDA model with a window of 24 tokens. Treat as read-only."""
    folder = tiny_base_folder.with_name("tiny-linda")
    LindaModel.from_seq2seq(tiny_base_folder, max_length=24).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_model(tiny_model_folder: Path) -> LindaModel:
    """The same, loaded. Treat as read-only."""
    return LindaModel.from_pretrained(tiny_model_folder)


@pytest.fixture
def copier(tiny_model: LindaModel) -> Interpolator:
    """What it reads it can write. Its settings are its own: a test may change them."""
    engine = ReadBack(len(tiny_model.tokenizer))
    return Interpolator(copy.copy(tiny_model.config), Tokens.of(tiny_model), tiny_model.converter, engine)
