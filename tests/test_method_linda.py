import pytest

from linda import methods
from linda.interpolation import Interpolator
from linda.methods.linda import Linda
from linda.model import LindaModel

A, B = ["the cat sat", "who is the man"], ["a dog ran in the city", "where was the river"]


@pytest.fixture(scope="module")
def interpolator(tiny_model: LindaModel) -> Interpolator:
    return Interpolator.of(tiny_model, "torch")


def test_the_same_as_the_interpolator(interpolator: Interpolator) -> None:
    method = methods.load("linda", model=interpolator, beams=2)
    assert method.needs_partner
    assert method.texts(A, B, [0.3, 0.9], [1, 2]) == interpolator.mix(A, B, [0.3, 0.9], beams=2)


def test_raw_reaches_the_model(interpolator: Interpolator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpolator.config, "calibration", [(0.0, 0.0), (0.5, 0.7), (1.0, 1.0)])
    half, ratios = [0.5, 0.5], [0.7, 0.7]
    assert Linda(interpolator).texts(A, B, half, [0, 0]) == interpolator.mix(A, B, ratios, raw=True, copies=False)
    assert Linda(interpolator, raw=True).texts(A, B, half, [0, 0]) == interpolator.mix(A, B, half, raw=True)


def test_sampling_follows_the_row_seed(interpolator: Interpolator) -> None:
    method = Linda(interpolator, beams=3).sampling
    first = method.texts(A, B, [0.5, 0.5], [1, 2])
    assert first == method.texts(A, B, [0.5, 0.5], [1, 2])
    assert first != method.texts(A, B, [0.5, 0.5], [3, 4])


def test_without_partners(interpolator: Interpolator) -> None:
    with pytest.raises(TypeError, match="needs a partner"):
        Linda(interpolator).texts(A, None, None, [1, 2])
