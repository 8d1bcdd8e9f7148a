"""SSMBA (Ng et al. 2020): mask parts of a text, and sample a reconstruction from a model.

The model is any masked language model, or a LINDA model: those are trained to restore masked sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
import torch

from linda.engines.decoding import Decoding
from linda.errors import LindaError
from linda.interpolation.longtext import split_to_window
from linda.methods import AugmentationMethod
from linda.methods.rewriting import Rewriter, joined_pieces
from linda.model.batching import batches, padded
from linda.model.pretrained import ModelKind, find_device, kind_of_model, load_pretrained

if TYPE_CHECKING:
    from linda.interpolation import Interpolator

_BATCH_TOKENS = 4096

# Masks a share of each text and reconstructs it: texts, one seed per text, and the share.
_Reconstruction = Callable[[Sequence[str], Sequence[int], float], list[str]]


class Ssmba(AugmentationMethod):
    """Reconstruct masked texts.

    Args:
        model: Folder or hub name of a masked language model or a LINDA model; None for the embedded LINDA model.
        share: Fraction of the tokens (words, with a LINDA model) to corrupt, at least one.
        engine: Engine that runs a LINDA model: auto, int8 or torch.

    Example:
        Ssmba(share=0.3).texts(["Who won the race?"], None, None, [0])
    """

    name = "ssmba"
    needs_partner = False

    def __init__(
        self, model: str | Path | Interpolator | None = None, *, share: float = 0.15, engine: str = "auto"
    ) -> None:
        if not 0 < share <= 1:
            raise LindaError(f"the share that SSMBA masks is {share}; it must be above 0 and at most 1")
        self.share = share
        self._reconstruct: _Reconstruction = MaskedModel(model) if _is_masked_model(model) else Denoiser(model, engine)

    @staticmethod
    def engine_for(model: str | Path | Interpolator | None, engine: str) -> str | None:
        from linda.interpolation import engine_for

        return None if _is_masked_model(model) else engine_for(model, engine)

    def texts(
        self, a: Sequence[str], b: Sequence[str] | None, alpha: Sequence[float] | None, seeds: Sequence[int]
    ) -> list[str]:
        """Reconstruct each text of `a`; `b` and `alpha` are not used."""
        return self._reconstruct(list(a), list(seeds), self.share)


def _is_masked_model(model: str | Path | Interpolator | None) -> TypeGuard[str | Path]:
    return isinstance(model, str | Path) and kind_of_model(model) != ModelKind.LINDA


class Denoiser:
    """Masks words and samples the whole text from a LINDA model."""

    def __init__(self, model: Interpolator | str | Path | None, engine: str) -> None:
        from linda.interpolation import Interpolator

        linda = model if isinstance(model, Interpolator) else Interpolator.from_pretrained(model, engine=engine)
        self._rewrite = Rewriter(linda.config, linda.tokens, linda.engine)

    def __call__(self, texts: Sequence[str], seeds: Sequence[int], share: float) -> list[str]:
        pieces = self._rewrite.split_long(texts)
        masked, piece_seeds = [], []
        for parts, seed in zip(pieces, seeds, strict=True):
            random = np.random.default_rng(seed)
            for part in parts:
                masked.append(_masked_words(part, self._rewrite.config.mask_token, share, random))
                piece_seeds.append(int(random.integers(2**32)))
        sampling = Decoding(beams=1, sample=True)
        return joined_pieces(pieces, self._rewrite(masked, sampling, piece_seeds, masked=True))


class MaskedModel:
    """Masks tokens and samples all of them at once from a masked language model.

    Of the chosen tokens 80 % are masked, 10 % replaced by a random token and 10 % kept, as in the training of BERT.
    """

    def __init__(self, model: str | Path) -> None:
        failure = f"{str(model)!r} cannot be loaded as a masked language model"
        self._model, self._tokenizer = load_pretrained("AutoModelForMaskedLM", model, failure)
        if self._tokenizer.mask_token_id is None:
            raise LindaError(f"{str(model)!r} has no mask token; give a masked language model (BERT, RoBERTa …)")
        limit = getattr(self._model.config, "max_position_embeddings", 512)
        self._window = min(limit, self._tokenizer.model_max_length)
        self._model.eval().to(find_device())
        self._special = np.array(self._tokenizer.all_special_ids)
        self._plain = np.setdiff1d(np.arange(self._model.config.vocab_size), self._special)

    def __call__(self, texts: Sequence[str], seeds: Sequence[int], share: float) -> list[str]:
        pieces = [split_to_window(text, lambda part: len(self._ids(part)), self._window) for text in texts]
        rows = [np.array(self._ids(part)) for parts in pieces for part in parts]
        # Each piece has its own random stream, so that batches do not change the result.
        streams = [
            np.random.default_rng([seed, number])
            for parts, seed in zip(pieces, seeds, strict=True)
            for number in range(len(parts))
        ]
        for batch in batches([len(row) for row in rows], _BATCH_TOKENS):
            self._resample([rows[row] for row in batch], [streams[row] for row in batch], share)
        written = self._tokenizer.batch_decode([row.tolist() for row in rows], skip_special_tokens=True)
        return joined_pieces(pieces, map(str.strip, written))

    @torch.inference_mode()
    def _resample(self, rows: list[np.ndarray], streams: list[np.random.Generator], share: float) -> None:
        """Change rows (L,) in place."""
        chosen = [
            _at_least_one(np.flatnonzero(~np.isin(row, self._special)), share, random)
            for row, random in zip(rows, streams, strict=True)
        ]
        corrupted = [
            torch.from_numpy(self._corrupted(row, places, random))
            for row, places, random in zip(rows, chosen, streams, strict=True)
        ]
        ids, mask = padded(corrupted, self._tokenizer.pad_token_id or 0, min_width=1)  # (B, L)
        device = self._model.device
        logits = self._model(input_ids=ids.to(device), attention_mask=mask.to(device)).logits.cpu()
        for number, (row, places, random) in enumerate(zip(rows, chosen, streams, strict=True)):
            if not len(places):
                continue
            scores = logits[number, torch.from_numpy(places)].double().numpy()[:, self._plain]  # (places, vocabulary)
            cumulative = np.cumsum(np.exp(scores - scores.max(axis=1, keepdims=True)), axis=1)
            points = random.random(len(places)) * cumulative[:, -1]
            row[places] = self._plain[(cumulative < points[:, None]).sum(axis=1)]

    def _corrupted(self, row: np.ndarray, places: np.ndarray, random: np.random.Generator) -> np.ndarray:
        row = row.copy()
        fate = random.random(len(places))
        row[places[fate < 0.8]] = self._tokenizer.mask_token_id
        replaced = places[fate >= 0.9]
        row[replaced] = random.choice(self._plain, size=len(replaced))
        return row

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, verbose=False)["input_ids"]
        return ids


def _at_least_one(places: np.ndarray, share: float, random: np.random.Generator) -> np.ndarray:
    """Choose each place with probability `share`, or one random place if that gives none."""
    chosen = places[random.random(len(places)) < share]
    return chosen if len(chosen) or not len(places) else random.choice(places, size=1)


def _masked_words(text: str, mask_token: str, share: float, random: np.random.Generator) -> str:
    words = text.split()
    for place in _at_least_one(np.arange(len(words)), share, random):
        words[place] = mask_token
    return " ".join(words)
