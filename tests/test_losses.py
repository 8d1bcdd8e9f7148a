"""The exported loss is cross-entropy against a distribution."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from linda import soft_cross_entropy

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
