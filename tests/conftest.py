"""What several test files share: a LINDA model of some thousand random weights, whole in a folder."""

import copy
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

# Before any Hugging Face library is imported: no test reaches for the network.
os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch

from linda.interpolation import Interpolator
from linda.model import LindaModel
from linda.model.tokens import Tokens
from read_back import ReadBack

if TYPE_CHECKING:
    from linda.web.interpolation import ScoredInterpolator
    from serving import Serving

WORDS = "the a cat dog man woman city river sat ran saw is was on in of and old red small what where who"
CHARACTERS = " abcdefghijklmnopqrstuvwxyz0123456789.?<>/"


@pytest.fixture(scope="session")
def tiny_base_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Marian encoder-decoder with random weights and a tokenizer that loses no character."""
    from transformers import MarianConfig, MarianMTModel, PreTrainedTokenizerFast

    from linda.training.base import EOS, MASK, PAD, UNK, build_tokenizer

    pieces = {f" {word}": -3.0 for word in WORDS.split()} | dict.fromkeys(CHARACTERS, -6.0)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=build_tokenizer(pieces),
        eos_token=EOS,
        unk_token=UNK,
        pad_token=PAD,
        mask_token=MASK,
        clean_up_tokenization_spaces=False,
    )
    config = MarianConfig(
        vocab_size=len(tokenizer),
        d_model=16,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=128,
        dropout=0.0,
        init_std=0.5,
        eos_token_id=tokenizer.eos_token_id,
        forced_eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
    )
    folder = tmp_path_factory.mktemp("models") / "tiny-base"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        MarianMTModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


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


@pytest.fixture(scope="session")
def scored_interpolator() -> "ScoredInterpolator":
    """The embedded model for servers in this process. They use it one after the other."""
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
    """The embedded model, loaded apart from any server: what it writes is what the command writes."""
    return Interpolator.from_pretrained()
