"""`linda export`."""

from pathlib import Path

from click.testing import CliRunner, Result

from linda.cli import main
from linda.config import LindaConfig
from linda.interpolation import Interpolator
from linda.model.checkpoint import EMBEDDED, WEIGHTS_FILE


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["export", *map(str, arguments)])


def test_writes_a_smaller_model_that_is_one(tiny_model_folder: Path, tmp_path: Path) -> None:
    sizes = {}
    for bits in (8, 16, 32):
        output = tmp_path / f"model-{bits}"
        result = run(tiny_model_folder, output, "--bits", bits)
        assert result.exit_code == 0, result.output
        assert "MB became" in result.stderr
        sizes[bits] = (output / WEIGHTS_FILE).stat().st_size
        assert isinstance(Interpolator.from_pretrained(output).mix("the cat", "a dog"), str)
        stored, kept = (LindaConfig.from_json(folder / "config.json") for folder in (tiny_model_folder, output))
        assert stored.calibration == kept.calibration
    assert sizes[8] < sizes[16] < sizes[32]


def test_8_bits_of_8_bits_are_the_same(tmp_path: Path) -> None:
    """The embedded model is stored in 8 bits: rounding it again changes nothing."""
    assert run(EMBEDDED, tmp_path / "again").exit_code == 0
    a, b = "The film was a great success.", "Who wrote the book about rivers?"
    first, again = (Interpolator.from_pretrained(folder).mix(a, b, 0.4) for folder in (EMBEDDED, tmp_path / "again"))
    assert first == again


def test_overwrites_nothing(tiny_model_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    result = run(tiny_model_folder, tmp_path / "there")
    assert result.exit_code == 2
    assert "already exists" in result.stderr
    assert list((tmp_path / "there").iterdir()) == []


def test_names_a_model_that_is_not_there(tmp_path: Path) -> None:
    result = run(tmp_path / "nowhere", tmp_path / "new")
    assert result.exit_code == 2
    assert "nowhere" in result.stderr
