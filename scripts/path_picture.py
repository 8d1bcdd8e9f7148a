"""Draws the path between two texts: one line per ratio, words coloured by the text they come from.

    python scripts/path_picture.py [--output docs/images/path.svg]

The texts are written by the embedded model. The picture has its own background, light or dark like the reader's system,
so that it can be read on any page. Origins differ in weight, slope and underline too, not only in colour.
"""

import textwrap
from pathlib import Path
from xml.sax.saxutils import escape

import click

from linda.files.textio import atomic_writer
from linda.interpolation import Interpolator
from linda.measures import share_of_first
from linda.web.origins import word_origins

OUTPUT = Path(__file__).parents[1] / "docs" / "images" / "path.svg"
A = "The museum in the old town is open every day."
B = "The library near the river is closed on Sunday."
RATIOS = 7

WIDTH, MARGIN, BAR, LINE = 760, 28, 64, 22
TEXT_LEFT = MARGIN + 52 + BAR + 20
CHARACTERS = 68  # per line
STYLE = """
  text { font: 16px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
  text { fill: var(--ink); }
  svg { --ground: #ffffff; --ink: #1c1c22; --muted: #5c5d66; --line: #e3e1dc; --first: #1d56b5; --second: #a8460a; }
  @media (prefers-color-scheme: dark) {
    svg { --ground: #1c1c21; --ink: #eeeef1; --muted: #a6a6b0; --line: #313138; --first: #8fb8ff; --second: #ffae7d; }
  }
  .ground { fill: var(--ground); stroke: var(--line); }
  .a { fill: var(--first); font-weight: 600; }
  .b { fill: var(--second); font-style: italic; }
  .neither { fill: var(--muted); text-decoration: underline; }
  .small { font-size: 13px; fill: var(--muted); }
  .bar { fill: var(--second); }
  .share { fill: var(--first); }
"""


@click.command()
@click.option("--a", default=A, show_default=True, help="First text.")
@click.option("--b", default=B, show_default=True, help="Second text.")
@click.option("--ratios", default=RATIOS, show_default=True, type=click.IntRange(2, 21), help="Texts on the path.")
@click.option("--output", default=OUTPUT, type=click.Path(path_type=Path), help="SVG file to write.")
def main(a: str, b: str, ratios: int, output: Path) -> None:
    with atomic_writer(output) as file:
        file.write(path_picture(a, b, ratios))


def path_picture(a: str = A, b: str = B, ratios: int = RATIOS) -> str:
    """Draw the path from a, on top, to b as SVG."""
    alphas = [1 - step / (ratios - 1) for step in range(ratios)]
    texts = Interpolator.from_pretrained().mix([a] * ratios, [b] * ratios, alphas)
    parts = []
    top = MARGIN + LINE
    for number, text in enumerate([f'<tspan class="small">{title}</tspan>' for title in ("α", "share of a", "text")]):
        parts.append(f'<text x="{(MARGIN, MARGIN + 52, TEXT_LEFT)[number]}" y="{top}">{text}</text>')
    for alpha, text in zip(alphas, texts, strict=True):
        top += LINE + 10
        share = share_of_first(text, a, b)
        parts += [
            f'<text x="{MARGIN}" y="{top}">{alpha:.2f}</text>',
            f'<rect class="bar" x="{MARGIN + 52}" y="{top - 10}" width="{BAR}" height="8" rx="2"/>',
            f'<rect class="share" x="{MARGIN + 52}" y="{top - 10}" width="{share * BAR:.1f}" height="8" rx="2"/>',
        ]
        lines = _coloured_lines(text, a, b)
        for line in lines:
            parts.append(f'<text x="{TEXT_LEFT}" y="{top}" xml:space="preserve">{line}</text>')
            top += LINE
        top -= LINE
    top += LINE + 16
    legend = (("a", "first text"), ("b", "second text"), ("both", "both"), ("neither", "neither"))
    shown = "   ".join(f'<tspan class="{origin}">{name}</tspan>' for origin, name in legend)
    parts.append(
        f'<text x="{TEXT_LEFT}" y="{top}" xml:space="preserve"><tspan class="small">words of:  </tspan>{shown}</text>'
    )
    height = top + MARGIN - 6
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img">\n<title>{escape(f"The path from “{a}” to “{b}”")}</title>\n<style>{STYLE}</style>\n'
        f'<rect class="ground" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="10"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _coloured_lines(text: str, a: str, b: str) -> list[str]:
    return [
        "".join(
            escape(piece) if origin is None else f'<tspan class="{origin}">{escape(piece)}</tspan>'
            for piece, origin in word_origins(line, a, b)
        )
        for line in textwrap.wrap(text, CHARACTERS) or [""]
    ]


if __name__ == "__main__":
    main()
