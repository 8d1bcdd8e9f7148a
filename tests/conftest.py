"""Fixtures shared by several test files, such as a model with some thousand random weights; the order of the files."""

import copy
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

# Before any Hugging Face library is imported: no test may use the network.
os.environ["HF_HUB_OFFLINE"] = "1"

import pytest

from linda.interpolation import Interpolator
from linda.model import LindaModel
from linda.model.tokens import Tokens
from read_back import ReadBack
from tiny_models import save_tiny_attention, save_tiny_base, tiny_language_model

if TYPE_CHECKING:
    from linda.web.interpolation import ScoredInterpolator
    from serving import Serving

# Started first, so that no worker of `pytest -n` is left with one of them at the end.
LONGEST_FILES = (
    "test_ray.py",
    "test_without_vnni.py",
    "test_fuzz.py",
    "test_shown_commands.py",
    "test_docs.py",
    "test_distributed_training.py",
    "test_serve_page.py",
    "test_paper_protocol.py",
    "test_crossing.py",
    "test_int8_engine.py",
    "test_benchmark_grid.py",
)

LM_VOCABULARY = ["<unk>", "<s>", "the", "cat", "sat", "on", "mat", "dog"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONGEST_FILES)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


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


@pytest.fixture(scope="session")
def tiny_attention_folder(tiny_base_folder: Path) -> Path:
    """A model that mixes by attention, with a window of 72 tokens. Treat as read-only."""
    return save_tiny_attention(tiny_base_folder, tiny_base_folder.with_name("tiny-attention"))


@pytest.fixture
def copier(tiny_model: LindaModel) -> Interpolator:
    """An interpolator that reproduces its input. Tests may change its settings."""
    engine = ReadBack(len(tiny_model.tokenizer))
    return Interpolator(copy.copy(tiny_model.config), Tokens.of(tiny_model), tiny_model.converter, engine)


@pytest.fixture(scope="session")
def language_model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model with random weights and a vocabulary of eight words."""
    from tokenizers import pre_tokenizers

    folder = tmp_path_factory.mktemp("lm")
    for part in tiny_language_model(LM_VOCABULARY, pre_tokenizers.WhitespaceSplit()):
        part.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def scored_interpolator() -> "ScoredInterpolator":
    """The embedded model for servers in this process. They use it in sequence."""
    from linda.web.interpolation import ScoredInterpolator

    return ScoredInterpolator.load(None, "auto")


@pytest.fixture(scope="session")
def server(scored_interpolator: "ScoredInterpolator") -> "Iterator[Serving]":
    """A server with default settings."""
    from serving import serving

    with serving(scored_interpolator) as running:
        yield running


@pytest.fixture(scope="session")
def embedded() -> Interpolator:
    """The embedded model, independent of any server; it writes the same texts as the command."""
    return Interpolator.from_pretrained()
