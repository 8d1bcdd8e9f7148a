"""The exported loss is cross-entropy against a distribution."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from linda import soft_binary_cross_entropy, soft_cross_entropy

LOGITS = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
SOFT = LOGITS.flip(1).softmax(dim=1)
HARD = torch.tensor([0, 2, 1, 1, 0])


def test_it_is_torchs_own_where_torch_has_it() -> None:
    assert soft_cross_entropy(LOGITS, SOFT).item() == pytest.approx(cross_entropy(LOGITS, SOFT).item())
    assert soft_cross_entropy(LOGITS, HARD).item() == pytest.approx(cross_entropy(LOGITS, HARD).item())


def test_targets_may_be_lists() -> None:
    assert soft_cross_entropy(LOGITS, SOFT.tolist()).item() == pytest.approx(soft_cross_entropy(LOGITS, SOFT).item())


def test_weights_say_how_much_a_row_counts() -> None:
    weights = [1, 0, 0, 2, 0]
    rows = [cross_entropy(LOGITS[row : row + 1], SOFT[row : row + 1]) for row in (0, 3)]
    assert soft_cross_entropy(LOGITS, SOFT, weights).item() == pytest.approx((rows[0] + 2 * rows[1]).item() / 3)


def test_its_gradient_is_the_difference_of_the_distributions() -> None:
    logits = LOGITS.clone().requires_grad_()
    soft_cross_entropy(logits, SOFT).backward()
    assert torch.allclose(logits.grad, (LOGITS.softmax(dim=1) - SOFT) / len(LOGITS), atol=1e-6)


def test_a_target_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\(5, 2\).*\(5, 3\)"):
        soft_cross_entropy(LOGITS, torch.ones(5, 2))


def test_several_labels_per_row_are_scored_one_by_one() -> None:
    """Against a plain loop over rows and classes."""
    logits = torch.tensor([[2.0, -1.0, 0.3], [-0.5, 0.0, 30.0]])
    targets = [[1.0, 0.2, 0.9], [0.0, 0.6, 1.0]]  # they need not sum to 1
    weights = [1.0, 0.25]
    rows = []
    for row, target in zip(logits.tolist(), targets, strict=True):
        losses = []
        for logit, value in zip(row, target, strict=True):
            share = 1 / (1 + math.exp(-logit))
            losses.append(-value * math.log(share) - ((1 - value) * math.log(1 - share) if value < 1 else 0))
        rows.append(sum(losses) / len(losses))
    assert soft_binary_cross_entropy(logits, targets).item() == pytest.approx((rows[0] + rows[1]) / 2)
    weighted = (weights[0] * rows[0] + weights[1] * rows[1]) / sum(weights)
    assert soft_binary_cross_entropy(logits, targets, weights).item() == pytest.approx(weighted)


def test_several_labels_have_one_value_per_class() -> None:
    with pytest.raises(ValueError, match=r"target has shape \(2,\); it must be \(2, 3\), like logits"):
        soft_binary_cross_entropy(torch.zeros(2, 3), [0, 1])
