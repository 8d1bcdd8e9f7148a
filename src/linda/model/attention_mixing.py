"""Mixing by attention: the decoder attends to both texts, with the ratio as a prior on its cross-attention.

The paper adds the states of two texts position by position (`length_converter`). Here the decoder attends to all of

    M = [c; Hᵃ + sᵃ; Hᵇ + sᵇ]                (1 + Lᵃ + Lᵇ states)

and log α is added to its attention scores on the states of a, log(1−α) to those on the states of b:

    softmax(q·Kᵀ/√k + log π),   π = 1 on c, α on a, 1−α on b.

So α weights the attention to a, and 1−α that to b. At α = 1 the decoder attends only to a, at α = 0 only to b, and in
between the states themselves are not averaged. c is a control state, a linear function of (α, α², 1, L̃, Lᵃ, Lᵇ), which
encodes the requested ratio and length. The source vectors sᵃ and sᵇ mark which text a state comes from. All three are
initialized with zeros, so that training starts from the unchanged encoder-decoder.

Shapes: B pairs, L tokens of a text, d the width of a state.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from linda.model.length_converter import Mixture, mixed_lengths

_LENGTH_UNIT = 32.0  # tokens: scales lengths to the magnitude of the other features


class AttentionMixing(nn.Module):
    """The control state (6·d weights), the source vectors (2·d), and the state that replaces the texts (d)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.sources = nn.Parameter(torch.zeros(2, width))
        self.control = nn.Parameter(torch.zeros(6, width))
        self.no_text = nn.Parameter(torch.zeros(width))

    def without_texts(self, rows: int) -> Mixture:
        """Return mixtures without any text, with which the decoder is an unconditional language model."""
        states = self.no_text.expand(rows, 1, -1)
        lengths = torch.zeros(rows, dtype=torch.long, device=states.device)
        return Mixture(states, torch.ones(rows, 1, dtype=torch.long, device=states.device), lengths)

    def mix(self, states_a: Tensor, mask_a: Tensor, states_b: Tensor, mask_b: Tensor, alpha: Tensor) -> Mixture:
        """Mix B pairs of texts.

        Args:
            states_a: Encoder states of the first texts, (B, Lᵃ, d), padded.
            mask_a: 1 for real states, (B, Lᵃ).
            states_b: Encoder states of the second texts, (B, Lᵇ, d), padded.
            mask_b: 1 for real states, (B, Lᵇ).
            alpha: Share of a, (B,).

        Returns:
            1 + Lᵃ + Lᵇ states per pair, followed by padding, so that a mixture does not depend on the other pairs.

        Example:
            mixture = mixing.mix(model.encode(ids_a, mask_a), mask_a, model.encode(ids_b, mask_b), mask_b, alpha)
        """
        lengths_a, lengths_b = mask_a.sum(1), mask_b.sum(1)
        lengths = mixed_lengths(lengths_a, lengths_b, alpha)
        tokens = torch.stack([lengths, lengths_a, lengths_b], dim=1) / _LENGTH_UNIT  # (B, 3)
        ratios = torch.stack([alpha, alpha**2, torch.ones_like(alpha)], dim=1)  # (B, 3)
        features = torch.cat([ratios, tokens], dim=1).to(states_a.dtype)
        control = (features @ self.control.to(states_a.dtype))[:, None]  # (B, 1, d)
        sources = self.sources.to(states_a.dtype)
        states = torch.cat([control, states_a + sources[0], states_b + sources[1]], dim=1)
        mask = torch.cat([torch.ones_like(mask_a[:, :1]), mask_a, mask_b], dim=1)
        prior_a = alpha.log()[:, None].expand(mask_a.shape)
        prior_b = (1 - alpha).log()[:, None].expand(mask_b.shape)
        prior = torch.cat([torch.zeros_like(prior_a[:, :1]), prior_a, prior_b], dim=1).float()
        # The padding of a is moved after b, because the rounding of attention depends on the position of a state.
        order = mask.argsort(dim=1, descending=True, stable=True)[:, : int(mask.sum(1).max())]  # (B, S)
        return Mixture(
            states=states.gather(1, order[:, :, None].expand(-1, -1, states.shape[2])),
            mask=mask.gather(1, order),
            lengths=lengths,
            prior=prior.gather(1, order),
        )
