"""Perplexity of texts under an independent language model, and disfluent texts as baselines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from tqdm import tqdm

from linda.errors import LindaError
from linda.model.batching import batches, padded
from linda.model.loss import IGNORED
from linda.model.pretrained import ModelKind, kind_of_model, load_pretrained

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_BATCH_TOKENS = 2048  # limited by the memory of the softmax over the vocabulary
_MAX_TOKENS = 512


@dataclass(frozen=True)
class Perplexity:
    """The perplexity of a set of texts as a whole: exp(Σ negative log-likelihood / Σ units)."""

    per_token: float  # tokens of the language model: the usual figure
    per_word: float  # words between spaces: does not depend on how words are split into tokens

    @classmethod
    def of(cls, losses: Sequence[TextLoss]) -> Perplexity:
        total = sum(loss.nats for loss in losses)
        return cls(
            per_token=_exp_mean(total, sum(loss.tokens for loss in losses)),
            per_word=_exp_mean(total, sum(loss.words for loss in losses)),
        )


@dataclass(frozen=True)
class TextLoss:
    """The negative log-likelihood of one text, and its number of tokens and words."""

    nats: float
    tokens: int
    words: int


class LanguageModel:
    """A causal language model that computes the likelihood of texts."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.start_id = _start_of_text(tokenizer)

    @classmethod
    def load(cls, path: str | Path, device: str | torch.device = "cpu") -> LanguageModel:
        """Load a folder of `transformers`, a name on the hub, a .gguf file, or a folder that contains one."""
        folder, gguf_file = _gguf_file(path)
        model, tokenizer = load_pretrained(
            "AutoModelForCausalLM",
            folder,
            f"{path} cannot be read as a causal language model",
            extra="lm",
            quiet=False,
            dtype=torch.float32,
            gguf_file=gguf_file,
        )
        model.to(torch.device(device))
        return cls(model, tokenizer)

    def perplexity(self, texts: Sequence[str], progress: bool = False) -> Perplexity:
        """Return the perplexity of a set of texts."""
        return Perplexity.of(self.losses(texts, progress))

    def losses(self, texts: Sequence[str], progress: bool = False) -> list[TextLoss]:
        """Return one loss per text. A start-of-text token precedes each text, so that its first token is scored too."""
        ids = [self.tokenizer(text, add_special_tokens=False)["input_ids"][:_MAX_TOKENS] for text in texts]
        nats = [0.0] * len(texts)
        with tqdm(total=len(texts), desc="perplexity", unit="text", disable=not progress) as bar:
            for rows in batches([len(row) for row in ids], _BATCH_TOKENS, min_width=1):
                for row, loss in zip(rows, self._batch_nats([ids[row] for row in rows]), strict=True):
                    nats[row] = loss
                bar.update(len(rows))
        return [TextLoss(*row) for row in zip(nats, map(len, ids), map(self._scored_words, texts, ids), strict=True)]

    def _scored_words(self, text: str, ids: list[int]) -> int:
        """Count the words between spaces in the first _MAX_TOKENS tokens, which are all that is scored."""
        return len((text if len(ids) < _MAX_TOKENS else str(self.tokenizer.decode(ids))).split())

    @torch.inference_mode()
    def _batch_nats(self, rows: list[list[int]]) -> list[float]:
        if not any(rows):
            return [0.0] * len(rows)
        device = self.model.device
        targets, _ = padded([torch.tensor(row, dtype=torch.long, device=device) for row in rows], IGNORED, min_width=1)
        starts = torch.full_like(targets[:, :1], self.start_id)
        inputs = torch.cat([starts, targets[:, :-1].clamp(min=0)], dim=1)  # (B, T); padding is on the right
        logits = self.model(input_ids=inputs, use_cache=False).logits  # (B, T, vocabulary)
        losses = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="none")
        return losses.view_as(targets).sum(1).tolist()


def word_mix(a: str, b: str, alpha: float, random: Random) -> str:
    """Mix two texts word by word: ⌈α·|a| + (1−α)·|b|⌉ positions, each with a word of a or of b.

    Each position takes the word of a with probability α, else that of b, at the same relative position of the text.

    Args:
        a: First text.
        b: Second text.
        alpha: Share of a.
        random: Random generator.

    Returns:
        The mixed words, separated by spaces.

    Example:
        >>> word_mix("the film was great", "the food was cold", 0.5, Random(0))
        'the food was great'
    """
    words_a, words_b = a.split(), b.split()
    length = math.ceil(alpha * len(words_a) + (1 - alpha) * len(words_b) - 1e-9)
    sources = [words_a if random.random() < alpha else words_b for _ in range(length)]
    return " ".join(source[place * len(source) // length] for place, source in enumerate(sources) if source)


def shuffled_words(text: str, random: Random) -> str:
    """Return the words of a text in random order."""
    words = text.split()
    random.shuffle(words)
    return " ".join(words)


def _exp_mean(total: float, count: int) -> float:
    return math.exp(total / count) if count else math.nan


def _start_of_text(tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the id of the marker between documents if the model has one, else of its bos or eos token."""
    marker: Any = tokenizer.get_vocab().get("<|endoftext|>", tokenizer.bos_token_id)
    if marker is None:
        marker = tokenizer.eos_token_id
    if marker is None:
        raise LindaError("the language model has no bos or eos token to start a text; use another model")
    return int(marker)


def _gguf_file(path: str | Path) -> tuple[str, str | None]:
    """Return the arguments of `from_pretrained`: a folder, and the name of its .gguf file, if any."""
    place = Path(path)
    if kind_of_model(path) != ModelKind.GGUF:
        return str(path), None
    if place.is_file():
        return str(place.parent), place.name
    files = sorted(place.glob("*.gguf"))
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise LindaError(f"{path} contains several language models ({names}); give the path of one of them")
    return str(path), files[0].name
