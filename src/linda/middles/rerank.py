"""Rank crossovers with a causal language model.

Scoring a dozen candidates of a pair in full would process the same words many times. Instead:

- both texts are processed once, which gives log p of each token in its own context, and a key-value cache;
- for each *seam* x[:i] → y[j:], only the first few tokens after it are processed, with the cached x[:i]; further tokens
  of y are assumed to be as likely as in y itself. A seam of several candidates is scored once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from linda.crossovers import Crossover, CutText
from linda.measures.fluency import LanguageModel

_SEAM_TOKENS = 4  # number of tokens to score after a seam
_SHARE_WEIGHT = 0.5  # penalty per unit of distance between share and ratio, in nats per token
_MAX_TOKENS = 192  # of a text; pairs with a longer one are not ranked


@dataclass(frozen=True)
class _ScoredText:
    """A text scored by the language model."""

    ids: list[int]
    starts: list[int]  # index of the first token of each chunk, then the number of tokens
    sums: Tensor  # (T + 1,): Σ log p of the tokens before each position, in their own context


class SeamRanker:
    """Ranks crossovers by their mean log-likelihood per token under a causal language model.

    Args:
        language_model: Causal `transformers` model with a byte-level BPE tokenizer.
    """

    def __init__(self, language_model: LanguageModel) -> None:
        self._model = language_model.model
        self._tokenizer = language_model.tokenizer
        self._start = language_model.start_id

    @classmethod
    def load(cls, path: str | Path) -> SeamRanker:
        """Load a language model in bfloat16: precise enough for ranking, and twice as fast if the CPU supports it."""
        language_model = LanguageModel.load(path)
        language_model.model.to(torch.bfloat16)
        return cls(language_model)

    @torch.inference_mode()
    def rank(
        self,
        pairs: Sequence[tuple[CutText, CutText]],
        candidates: Sequence[Sequence[tuple[float, Sequence[Crossover]]]],
    ) -> list[list[list[Crossover]]]:
        """Sort the crossovers of each pair at each ratio, best first.

        Args:
            pairs: Texts a and b of each pair.
            candidates: For each pair, a sequence of (ratio, crossovers at this ratio).

        Returns:
            For each pair and ratio, the crossovers with the score of the language model; none if a text is too long.
        """
        texts = [self._tokenized(text) for pair in pairs for text in pair]
        is_short = [all(len(ids) <= _MAX_TOKENS for ids, _ in texts[2 * p : 2 * p + 2]) for p in range(len(pairs))]
        seams = sorted(
            {
                (pair, *seam)
                for pair, ratios in enumerate(candidates)
                if is_short[pair]
                for _, crossovers in ratios
                for crossover in crossovers
                for seam in crossover.seams
            }
        )
        scored_texts, cache = self._score_texts(texts)
        seam_scores = dict(zip(seams, self._seam_scores(seams, scored_texts, cache), strict=True))

        def score(pair: int, alpha: float, crossover: Crossover) -> float:
            total, tokens = 0.0, 0
            for text, start, stop in crossover.runs:
                side = scored_texts[2 * pair + text]
                total += float(side.sums[side.starts[stop]] - side.sums[side.starts[start]])
                tokens += side.starts[stop] - side.starts[start]
            total += sum(seam_scores[(pair, *seam)] for seam in crossover.seams)
            return total / max(1, tokens) - _SHARE_WEIGHT * abs(crossover.share - alpha)

        ranked: list[list[list[Crossover]]] = []
        for pair, ratios in enumerate(candidates):
            scored = [
                [replace(c, score=score(pair, alpha, c)) for c in crossovers] if is_short[pair] else []
                for alpha, crossovers in ratios
            ]
            ranked.append([sorted(crossovers, key=lambda c: -c.score) for crossovers in scored])
        return ranked

    def _tokenized(self, text: CutText) -> tuple[list[int], list[int]]:
        """Return the token ids, and the index of the first token of each chunk, followed by the number of tokens."""
        ids: list[int] = []
        starts = [0]
        for place in range(len(text)):
            # A word and the preceding space are tokenized independently, as in any byte-level BPE.
            spaced = text.gap_before(place) + text.chunks[place]
            ids += self._tokenizer(spaced, add_special_tokens=False)["input_ids"]
            starts.append(len(ids))
        return ids, starts

    def _score_texts(
        self, texts: Sequence[tuple[list[int], list[int]]]
    ) -> tuple[list[_ScoredText], list[tuple[Tensor, Tensor]]]:
        """Score the texts; return them with the keys and values of each layer, (texts, heads, 1 + T, d)."""
        from transformers import DynamicCache

        width = 1 + max(min(len(ids), _MAX_TOKENS) for ids, _ in texts)
        rows = [[self._start, *ids][:width] for ids, _ in texts]
        inputs = torch.tensor([row + [self._start] * (width - len(row)) for row in rows])
        cache = DynamicCache()
        states = self._model.base_model(input_ids=inputs, past_key_values=cache, use_cache=True).last_hidden_state
        targets = torch.cat([inputs[:, 1:], inputs[:, :1]], dim=1)
        is_token = torch.arange(width) < torch.tensor([len(row) - 1 for row in rows])[:, None]  # (texts, 1 + T)
        own = torch.zeros(is_token.shape, dtype=torch.float64)
        own[is_token] = self._log_p(states[is_token], targets[is_token]).double()
        sums = F.pad(own.cumsum(1), (1, 0))  # (texts, 2 + T)
        scored = [_ScoredText(ids, starts, row) for (ids, starts), row in zip(texts, sums, strict=True)]
        layers: Any = cache.layers
        return scored, [(layer.keys, layer.values) for layer in layers]

    def _log_p(self, states: Tensor, tokens: Tensor) -> Tensor:
        """Return log p of tokens (n,) after states (n, d)."""
        logits = self._model.get_output_embeddings()(states).float()
        return logits.gather(1, tokens[:, None])[:, 0] - logits.logsumexp(dim=1)

    def _seam_scores(
        self,
        seams: Sequence[tuple[int, int, int, int, int]],
        texts: Sequence[_ScoredText],
        cache: list[tuple[Tensor, Tensor]],
    ) -> list[float]:
        """Return log p of the tokens after each seam, minus that of the same tokens in their own context."""
        from transformers import DynamicCache

        if not seams:
            return []
        before = [2 * pair + first for pair, first, _, _, _ in seams]
        prefix = torch.tensor([texts[row].starts[i] for row, (_, _, i, _, _) in zip(before, seams, strict=True)])
        afters = []
        for pair, _, _, second, j in seams:
            other = texts[2 * pair + second]
            afters.append((other, other.starts[j], min(other.starts[j] + _SEAM_TOKENS, len(other.ids))))
        width = int(prefix.max()) + 1
        # The last token before the seam is processed again: its state predicts the first token after it.
        tokens = [
            [texts[row].ids[int(length) - 1], *other.ids[start:stop]]
            for row, length, (other, start, stop) in zip(before, prefix, afters, strict=True)
        ]
        longest = max(map(len, tokens))
        inputs = torch.tensor([row + [self._start] * (longest - len(row)) for row in tokens])  # (S, t)
        own_cache = DynamicCache()
        rows = torch.tensor(before)
        for layer, (keys, values) in enumerate(cache):
            own_cache.update(keys[rows, :, : width - 1], values[rows, :, : width - 1], layer)
        # Cache positions: 0 is the start marker, 1 … prefix are tokens, the last of which is processed again.
        is_seen = torch.arange(width - 1) < prefix[:, None]
        mask = torch.cat([is_seen, torch.ones_like(inputs, dtype=torch.bool)], dim=1).long()
        positions = prefix[:, None] + torch.arange(longest)
        states = self._model.base_model(
            input_ids=inputs, attention_mask=mask, position_ids=positions, past_key_values=own_cache, use_cache=True
        ).last_hidden_state  # (S, t, d)
        is_scored = torch.arange(longest)[None, :-1] < torch.tensor([len(row) - 1 for row in tokens])[:, None]
        log_p = torch.zeros(is_scored.shape)
        log_p[is_scored] = self._log_p(states[:, :-1][is_scored], inputs[:, 1:][is_scored])
        own = torch.tensor([float(other.sums[stop] - other.sums[start]) for other, start, stop in afters])
        return (log_p.sum(1) - own).tolist()
