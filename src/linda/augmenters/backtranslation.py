"""Back-translation: into another language and back, through any two seq2seq models of `transformers`."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path

from linda import engines
from linda.augmenters.rewriting import Rewriter
from linda.config import LindaConfig
from linda.engines.decoding import Decoding
from linda.model import LindaModel
from linda.model.pretrained import SEQ2SEQ, find_device, load_pretrained
from linda.model.tokens import Tokens

_SEARCH = Decoding(beams=4)
_SAMPLE = Decoding(beams=1, sample=True, temperature=0.7, top_p=0.9)


class BackTranslation:
    """there, back: folders or hub names, as opus-mt-en-fr and opus-mt-fr-en.

    The translation is the best of a beam search both ways; `sampling` samples both ways instead.
    """

    name = "backtranslation"
    needs_partner = False

    def __init__(self, there: str | Path, back: str | Path) -> None:
        self._ways = [_load(there), _load(back)]
        self._decoding = _SEARCH

    @property
    def sampling(self) -> BackTranslation:
        """The same models, with random draws: another text for every seed."""
        twin = copy(self)
        twin._decoding = _SAMPLE
        return twin

    def texts(
        self, a: Sequence[str], b: Sequence[str] | None, alpha: Sequence[float] | None, seeds: Sequence[int]
    ) -> list[str]:
        """b and alpha are not read: one text is translated at a time."""
        texts = list(a)
        for translate in self._ways:
            pieces = translate.split_long(texts)
            stripped = [part.strip() for parts in pieces for part in parts]
            piece_seeds = [
                seed + number for parts, seed in zip(pieces, seeds, strict=True) for number in range(len(parts))
            ]
            written = iter(translate(stripped, self._decoding, piece_seeds))
            texts = ["".join(next(written) + part[len(part.rstrip()) :] for part in parts) for parts in pieces]
        return texts


def _load(name: str | Path) -> Rewriter:
    """A translation model in the dress of a LINDA model whose converter is never used: for its tokens and engine."""
    seq2seq, tokenizer = load_pretrained(SEQ2SEQ, name, f"the translation model {str(name)!r} cannot be loaded")
    window = getattr(seq2seq.config, "max_position_embeddings", 512)
    config = LindaConfig(base=seq2seq.config.to_dict(), mask_token=str(tokenizer.unk_token), max_length=window)
    model = LindaModel(config, seq2seq, tokenizer).to(find_device())
    return Rewriter(config, Tokens.of(model), engines.load("auto", model))
