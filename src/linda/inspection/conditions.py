"""The paper's four conditions (§3.1), evaluated with the model's probabilities at the uncalibrated ratio.

With α the share of the first text:
    1. p(xᵃ) > p(xᵇ) for α > 0.5        2. p(xᵃ) < p(xᵇ) for α < 0.5
    3. p(xᵃ) ≫ 0 and p(xᵇ) ≫ 0          4. p(xᵃ) + p(xᵇ) ≪ 1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from tqdm import tqdm

from linda.inspection.path import GRID
from linda.measures.pairs import Pair
from linda.model import LindaModel
from linda.model.batching import by_length
from linda.model.loss import as_targets

STATES, ATTENTION = "states", "attention"  # the two ways of mixing, as in `LindaConfig.mixing`

_BATCH_PAIRS = 32


@dataclass(frozen=True)
class ConditionPoint:
    """Averages over the pairs at one ratio."""

    alpha: float
    a_likelier: float  # share of pairs with p(xᵃ) > p(xᵇ)
    b_likelier: float  # share of pairs with p(xᵇ) > p(xᵃ)
    log_p_a: float  # log p(xᵃ) per token of xᵃ
    log_p_b: float
    sum_of_both: float  # p(xᵃ) + p(xᵇ), of whole texts

    @property
    def holds(self) -> float:
        """Share of pairs for which the text with the larger share is more likely."""
        return self.a_likelier if self.alpha > 0.5 else self.b_likelier


@torch.inference_mode()
def measure_conditions(
    model: LindaModel, pairs: Sequence[Pair], mixing: str = STATES, progress: bool = False
) -> list[ConditionPoint]:
    """Evaluate the conditions at each ratio of the grid.

    Args:
        model: The model whose probabilities are used.
        pairs: Texts a and b.
        mixing: STATES (the paper's method), or ATTENTION for a model that was trained with it.
        progress: Show a progress bar.

    Returns:
        One point per ratio.

    Example:
        >>> points = measure_conditions(LindaModel.from_pretrained("model"), pairs)
        >>> min(point.holds for point in points if point.alpha not in (0, 0.5, 1))
    """
    log_p_a: dict[float, list[Tensor]] = {alpha: [] for alpha in GRID}
    log_p_b: dict[float, list[Tensor]] = {alpha: [] for alpha in GRID}
    tokens_a = tokens_b = 0
    mixer = model.attention_mixing if mixing == ATTENTION else model.converter
    assert mixer is not None
    with tqdm(total=len(pairs), desc=f"conditions ({mixing})", unit="pair", disable=not progress) as bar:
        for batch in by_length(pairs, lambda pair: len(pair[0]) + len(pair[1]), _BATCH_PAIRS):
            a, b = model.tokenize([a for a, _ in batch]), model.tokenize([b for _, b in batch])
            texts = model.encode(**a), a["attention_mask"], model.encode(**b), b["attention_mask"]
            targets_a, targets_b = as_targets(**a), as_targets(**b)
            for alpha in GRID:
                ratios = torch.full((len(batch),), alpha, device=model.device)
                mixture = mixer.mix(*texts, ratios)
                for log_p, targets in ((log_p_a, targets_a), (log_p_b, targets_b)):
                    found = model.log_likelihood(mixture.states, mixture.mask, targets, prior=mixture.prior)
                    log_p[alpha].append(found.double().cpu())
            tokens_a += int(a["attention_mask"].sum())
            tokens_b += int(b["attention_mask"].sum())
            bar.update(len(batch))
    return [_point(alpha, torch.cat(log_p_a[alpha]), torch.cat(log_p_b[alpha]), tokens_a, tokens_b) for alpha in GRID]


def _point(alpha: float, log_p_a: Tensor, log_p_b: Tensor, tokens_a: int, tokens_b: int) -> ConditionPoint:
    return ConditionPoint(
        alpha=alpha,
        a_likelier=float((log_p_a > log_p_b).double().mean()),
        b_likelier=float((log_p_b > log_p_a).double().mean()),
        log_p_a=float(log_p_a.sum()) / tokens_a,
        log_p_b=float(log_p_b.sum()) / tokens_b,
        sum_of_both=float((log_p_a.exp() + log_p_b.exp()).mean()),
    )
