"""Back-translation: to another language and back, with any two encoder-decoders of `transformers`."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path

from linda import engines
from linda.config import LindaConfig
from linda.engines.decoding import Decoding
from linda.methods import AugmentationMethod
from linda.methods.rewriting import Rewriter, joined_pieces
from linda.model import LindaModel
from linda.model.pretrained import SEQ2SEQ, find_device, load_pretrained
from linda.model.tokens import Tokens

_SEARCH = Decoding(beams=4)
_SAMPLE = Decoding(beams=1, sample=True, temperature=0.7, top_p=0.9)


class BackTranslation(AugmentationMethod):
    """Translate by beam search in both directions; `sampling` samples in both directions instead.

    Args:
        there: Folder or hub name of the model into the other language, such as opus-mt-en-fr.
        back: Folder or hub name of the model back, such as opus-mt-fr-en.
    """

    name = "backtranslation"
    needs_partner = False

    def __init__(self, there: str | Path, back: str | Path) -> None:
        self._directions = [_load(there), _load(back)]
        self._decoding = _SEARCH

    @property
    def sampling(self) -> BackTranslation:
        """The same models, with sampling: each seed gives a different text."""
        twin = copy(self)
        twin._decoding = _SAMPLE
        return twin

    def texts(
        self, a: Sequence[str], b: Sequence[str] | None, alpha: Sequence[float] | None, seeds: Sequence[int]
    ) -> list[str]:
        """Translate each text of `a`; `b` and `alpha` are not used."""
        texts = list(a)
        for translate in self._directions:
            pieces = translate.split_long(texts)
            stripped = [part.strip() for parts in pieces for part in parts]
            piece_seeds = [
                seed + number for parts, seed in zip(pieces, seeds, strict=True) for number in range(len(parts))
            ]
            texts = joined_pieces(pieces, translate(stripped, self._decoding, piece_seeds))
        return texts


def _load(name: str | Path) -> Rewriter:
    """Wrap a translation model as a `LindaModel`, for its tokens and engine. The length converter is not used."""
    seq2seq, tokenizer = load_pretrained(SEQ2SEQ, name, f"the translation model {str(name)!r} cannot be loaded")
    window = getattr(seq2seq.config, "max_position_embeddings", 512)
    config = LindaConfig(base=seq2seq.config.to_dict(), mask_token=str(tokenizer.unk_token), max_length=window)
    model = LindaModel(config, seq2seq, tokenizer).to(find_device())
    return Rewriter(config, Tokens.of(model), engines.load("auto", model))
