"""linda inspect"""

import sys
from pathlib import Path

import click

from linda.cli.options import FILE, PAIRS, PATH, SEED, engine_option


@click.command()
@click.argument("model", required=False, type=FILE)
@click.option(
    "--sentences",
    required=True,
    type=FILE,
    help="Held-out sentences: .txt (one a line) or .jsonl (field 'text'), plain, .gz or .xz.",
)
@click.option("--output", required=True, type=PATH, help="Folder for the report.")
@click.option("--pairs", default=500, show_default=True, type=PAIRS, help="How many pairs to decode.")
@click.option("--seed", default=0, show_default=True, type=SEED, help="Which pairs are drawn.")
@click.option("--raw", is_flag=True, help="Also follow the raw path; decodes twice as much.")
@click.option(
    "--lm", type=FILE, help="Causal language model for perplexity: a folder, a .gguf file or a name on the hub."
)
@click.option(
    "--standard",
    type=click.Choice(["in-domain", "out-of-domain"]),
    default="in-domain",
    show_default=True,
    help="The bounds of the verdict: text like that of training, or unlike it.",
)
@click.option("--figures/--no-figures", default=True, help="Draw PNG figures (needs linda[plot]).")
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, cuda:0 …")
@engine_option
def command(
    model: str | None,
    sentences: str,
    output: Path,
    pairs: int,
    seed: int,
    raw: bool,
    lm: str | None,
    standard: str,
    figures: bool,
    device: str,
    engine: str,
) -> None:
    """Measure how well MODEL (the embedded one if none is named) interpolates between random pairs of sentences.

    Writes report.json, report.md with the verdict, outputs.jsonl and figures; prints the verdict. What each measure
    means stands in docs/measures.md.
    """
    from transformers.utils.logging import disable_progress_bar

    from linda.files.textio import writing
    from linda.inspection import STANDARDS, inspect_model, write_report
    from linda.inspection.figures import draw_figures, require_matplotlib
    from linda.inspection.report import check_report_folder, verdict_table
    from linda.interpolation import Interpolator
    from linda.measures.fluency import LanguageModel
    from linda.measures.pairs import draw_pairs
    from linda.model import LindaModel
    from linda.model.checkpoint import model_folder
    from linda.model.pretrained import find_device
    from linda.training.corpus import read_sentences

    check_report_folder(output)
    if figures:
        require_matplotlib()
    drawn = draw_pairs(read_sentences(sentences), pairs, seed)
    if not sys.stderr.isatty():
        disable_progress_bar()  # of `transformers`, while it reads the language model
    language_model = None if lm is None else LanguageModel.load(lm)
    loaded = LindaModel.from_pretrained(model_folder(model), find_device(device))
    interpolator = Interpolator.of(loaded, engine)
    with writing(output):
        output.mkdir(parents=True, exist_ok=True)
    inspection = inspect_model(
        interpolator,
        loaded,
        drawn,
        language_model=language_model,
        with_raw=raw,
        seed=seed,
        progress=sys.stderr.isatty(),
    )
    about = {
        "model": model or "embedded",
        "sentences": Path(sentences).name,
        "pairs": pairs,
        "seed": seed,
        "language model": lm and Path(lm).name,
        "standard": standard,
        "engine": interpolator.engine.name,
        "calibration": [(round(asked, 4), round(mixed, 4)) for asked, mixed in interpolator.config.calibration],
    }
    requirements = write_report(inspection, output, about, STANDARDS[standard])
    if figures:
        draw_figures(inspection, output)
    click.echo(verdict_table(requirements))
    click.echo(f"report: {output / 'report.md'}")
