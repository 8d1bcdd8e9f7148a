"""The output layer over a short list of tokens per row.

Half of the multiplications of a decoding step, and most of the work after them, would be spent on tokens that mixtures
of two texts do not contain. So the short list of a row consists of

- all tokens of its two source texts;
- the first `COMMON` tokens of the vocabulary. Tokenizers number their tokens by descending frequency (SentencePiece,
  BART's dictionary, `linda cut-base`), with special tokens and bytes first;
- the end markers.

The common tokens are one matrix, packed once. The other tokens of all rows of a batch are a second, small matrix, in
which the tokens of other rows are masked: the output of a row does not depend on them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from linda.engines.bart_family import Network
from linda.engines.linear import Linear
from linda.engines.quantized import Rows
from linda.engines.search import WHOLE, Vocabulary, log_sums_of

COMMON = 8000  # its effects on speed and texts: docs/explanation/decoding.md


class Output:
    """The output layer of one batch, from states to logits."""

    def __init__(self, parts: Sequence[Linear], hidden: Tensor | None = None, vocabulary: Vocabulary = WHOLE) -> None:
        """Combine layers; hidden (B, 1, n) is −∞ for those of the last n tokens that only other rows have, else 0."""
        self.vocabulary = vocabulary
        self._parts = parts
        self._hidden = hidden
        self._logits = torch.empty(0)  # buffer that every step overwrites

    def __call__(self, states: Rows, rows: int) -> Tensor:
        """Map states of B·p paths to logits (B, p, V), which are valid until the next call."""
        widths = [part.outputs for part in self._parts]
        if len(self._logits) < len(states.scales):
            self._logits = torch.empty(len(states.scales), sum(widths))
        logits = self._logits[: len(states.scales)]
        for part, place in zip(self._parts, logits.split(widths, dim=1), strict=True):
            part(states, out=place)
        logits = logits.view(rows, -1, logits.shape[1])
        if self._hidden is not None:
            logits[:, :, -self._hidden.shape[2] :].add_(self._hidden)
        return logits

    def log_p(self, states: Rows, row: Tensor, columns: Tensor) -> Tensor:
        """Return the log-probabilities (N, w) of the given columns at N positions.

        Args:
            states: States of N positions.
            row: Row of the batch that each position belongs to, (N,).
            columns: Columns of each position, (N, w).
        """
        found = torch.full(columns.shape, -torch.inf)  # the value of tokens that are never generated
        log_sums = []
        start = 0
        # Not concatenated first, which would take as long as the sums.
        for number, part in enumerate(self._parts):
            logits = part(states)
            if self._hidden is not None and number == len(self._parts) - 1:
                logits[:, -self._hidden.shape[2] :].add_(self._hidden[row, 0])
            inside = columns - start
            is_here = (columns >= start) & (inside < part.outputs)
            found = torch.where(is_here, logits.gather(1, inside.clamp(0, part.outputs - 1)), found)
            maxima = logits.amax(dim=1, keepdim=True).clamp_min(torch.finfo(logits.dtype).min)
            log_sums.append(log_sums_of(logits, maxima))
            start += part.outputs
        return found - torch.cat(log_sums, dim=1).logsumexp(dim=1, keepdim=True)

    def keep(self, order: list[int]) -> None:
        if self._hidden is not None:
            self._hidden = self._hidden[order]


class ShortLists:
    """Creates the output layer of a batch."""

    def __init__(self, network: Network, ends: Sequence[int], never: Sequence[int]) -> None:
        """Pack the common tokens; ends: end markers; never: tokens that are never generated."""
        self._network = network
        common = {*range(min(COMMON, network.vocabulary_size)), *ends} - {*never}
        self._never = frozenset(never)
        self._common = torch.tensor(sorted(common))
        self._is_common = frozenset(common)
        self._common_part = network.output_layer(self._common)

    def output(self, pieces: Sequence[Collection[int]]) -> Output:
        """Return the output layer for a batch, where pieces[i] are the token ids of the two texts of row i."""
        own = [frozenset(row) - self._is_common - self._never for row in pieces]
        rare = sorted(frozenset().union(*own))
        if not rare:
            return Output([self._common_part], None, Vocabulary(self._common, self._network.vocabulary_size))
        column = {piece: number for number, piece in enumerate(rare)}
        hidden = torch.full((len(own), 1, len(rare)), -torch.inf)
        for row, own_pieces in enumerate(own):
            hidden[row, 0, [column[piece] for piece in own_pieces]] = 0.0
        rare_tokens = torch.tensor(rare)
        vocabulary = Vocabulary(torch.cat([self._common, rare_tokens]), self._network.vocabulary_size)
        return Output([self._common_part, self._network.output_layer(rare_tokens)], hidden, vocabulary)
