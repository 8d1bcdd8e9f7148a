"""The figures of the documentation are those that `make figures` draws."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

import figures
from examples import ROOT
from linda.engines.linear import IntegerProduct
from path_picture import path_picture

IMAGES = ROOT / "docs" / "images"


def test_figures_are_drawn_from_the_committed_results(tmp_path: Path) -> None:
    figures.draw_figures(tmp_path)
    for name in figures.FIGURES:
        assert (tmp_path / name).read_bytes() == (IMAGES / name).read_bytes(), f"{name}: run `make figures`"


@pytest.mark.skipif(not IntegerProduct.is_exact(), reason="the picture shows what is written with VNNI")
def test_the_path_is_what_the_embedded_model_writes() -> None:
    assert path_picture() == (IMAGES / "path.svg").read_text(encoding="utf-8"), "run `make figures`"


def test_words_of_the_path_are_marked_by_origin() -> None:
    picture = ElementTree.fromstring(path_picture("A red & old car.", "A new house.", ratios=2))
    marked = [(span.get("class"), span.text) for span in picture.iter("{http://www.w3.org/2000/svg}tspan")]
    assert ("both", "A") in marked
    assert ("a", "red") in marked
    assert ("b", "house") in marked


def test_a_report_without_a_path_is_an_error() -> None:
    with pytest.raises(ValueError, match="no table"):
        figures._path_table("| α | other |\n|---|---|\n| 0 | 1 |\n")
