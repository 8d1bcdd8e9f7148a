"""The output layer over a short list of the vocabulary: the pieces that a row may be written with.

Half of a decoding step's multiplications, and most of what follows them, go into pieces that no sensible mixture of two
texts has. So a row chooses among

- the pieces of its own two texts, all of them;
- the pieces that any text may need: the `COMMON` first ones of the vocabulary. Tokenizers number their pieces from the
  most to the least frequent (SentencePiece, BART's dictionary, `linda cut-base`), with special tokens and bytes first;
- the markers that end a text.

The common ones are one matrix, packed once. The other pieces of all rows of a batch are a second, small one, of which
each row sees its own: what is written for a row does not depend on the rows beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from linda.engines.bart_family import Network
from linda.engines.linear import Linear
from linda.engines.quantized import Rows
from linda.engines.search import WHOLE, Vocabulary, log_sums_of

COMMON = 8000  # docs/explanation/decoding.md: what it costs and what it changes


class Output:
    """States become logits over the vocabulary of one batch."""

    def __init__(self, parts: Sequence[Linear], hidden: Tensor | None = None, vocabulary: Vocabulary = WHOLE) -> None:
        """parts: layers side by side; hidden (B, 1, n): 0, or −∞ for a piece of the last n that is another row's."""
        self.vocabulary = vocabulary
        self._parts = parts
        self._hidden = hidden
        self._logits = torch.empty(0)  # room that every step writes anew

    def __call__(self, states: Rows, rows: int) -> Tensor:
        """states of B·p paths → logits (B, p, V), good until the next call."""
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
        """States of any N positions → log-probabilities of some columns.

        Args:
            states: N of them.
            row: the row of the batch that each is of, (N,).
            columns: of each position, (N, w).

        Returns:
            (N, w)
        """
        found = torch.full(columns.shape, -torch.inf)  # which a token keeps that is never written
        log_sums = []
        start = 0
        # Part by part: to put the logits of all parts side by side would cost as much as to sum them.
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
    """Makes the output layer of a batch."""

    def __init__(self, network: Network, ends: Sequence[int], never: Sequence[int]) -> None:
        """ends: the markers that end a text; never: tokens that are not written."""
        self._network = network
        common = {*range(min(COMMON, network.vocabulary_size)), *ends} - {*never}
        self._never = frozenset(never)
        self._common = torch.tensor(sorted(common))
        self._is_common = frozenset(common)
        self._common_part = network.output_layer(self._common)

    def output(self, pieces: Sequence[Collection[int]]) -> Output:
        """pieces[i]: the token ids of the two texts of row i."""
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
