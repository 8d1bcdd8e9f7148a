"""The settings of a model: errors name the bad value, wherever it comes from."""

from pathlib import Path

import pytest

from linda.config import LindaConfig
from linda.errors import LindaError


class TestConfig:
    @pytest.mark.parametrize(
        "wrong",
        [
            {"mask_probability": 1.5},
            {"noise": -1.0},
            {"norm_penalty": float("nan")},
            {"max_length": 1},
            {"calibration": [(0.0, 0.0), (0.5, 0.7), (0.6, 0.4), (1.0, 1.0)]},
            {"calibration": [(0.0, 0.1), (1.0, 1.0)]},
            {"calibration": [(0.0, 0.0), (float("nan"), 0.5), (1.0, 1.0)]},
            {"calibration": []},
            {"calibration": [("a", "b")]},
        ],
    )
    def test_names_a_wrong_value(self, wrong: dict[str, object]) -> None:
        with pytest.raises(LindaError, match=next(iter(wrong))):
            LindaConfig(base={}, **wrong)

    def test_an_unknown_setting(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text('{"model_type": "linda", "base": {}, "surprise": 1}')
        with pytest.raises(LindaError, match="surprise"):
            LindaConfig.from_json(tmp_path / "config.json")
