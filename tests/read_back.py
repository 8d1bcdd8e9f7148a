"""An interpolator that reproduces its input, so that a test knows the expected text."""

from collections.abc import Collection

import torch

from linda.engines.decoding import Decoding, Hypothesis


class ReadBack:
    """A perfect model: its states are one-hot token ids, and it writes the id with the largest weight."""

    name = "read-back"
    device = torch.device("cpu")
    batch_tokens = 4096

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self.seeds: list[int] = []
        self.pieces: list[Collection[int]] = []
        self.rows = 0

    def encode(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.one_hot(ids, self.vocabulary).float()

    def decode(
        self, states, mask, decoding: Decoding, seeds, pieces, prior=None, lengths=None
    ) -> list[list[Hypothesis]]:
        self.seeds += seeds
        self.pieces += pieces
        self.rows += len(states)
        ids = states.argmax(dim=-1)
        return [[Hypothesis(row[real.bool()].tolist(), 0.0)] * decoding.n for row, real in zip(ids, mask, strict=True)]
