"""`linda inspect`: measure how well a model interpolates."""

import sys
from pathlib import Path

import click

from linda.cli.grouped_help import GroupedCommand
from linda.cli.options import FILE, PAIRS, PATH, SEED, device_option, engine_option, sentences_option

GROUPS = {
    "Input and output": ("sentences", "output", "figures"),
    "Pairs": ("pairs", "seed"),
    "Measures": ("lm", "trigrams", "raw", "standard"),
    "Execution": ("device", "engine"),
}

EXAMPLES = """\b
Examples:
  A quick look at the embedded model, without perplexity:
    linda inspect --sentences heldout.txt.xz --output report --pairs 20
  Every measure, on text unlike the training text:
    linda inspect my-model --sentences reviews.jsonl --output report --standard out-of-domain \\
        --lm smollm2-135m --trigrams trigrams.safetensors
"""

LM_HELP = "Causal language model for perplexity: a folder, a .gguf file or a name on the hub."
TRIGRAMS_HELP = "Table written by `linda middles table`: adds the best crossovers as a reference (with --lm)."
RAW_HELP = "Also measure the paper's mixing at the raw ratio; doubles the decoding time."
STANDARD_HELP = "Bounds of the verdict, for sentences similar to the training data or not."


@click.command(cls=GroupedCommand, groups=GROUPS, epilog=EXAMPLES)
@click.argument("model", required=False, type=FILE)
@sentences_option
@click.option("--output", required=True, metavar="FOLDER", type=PATH, help="Folder for the report.")
@click.option("--pairs", default=500, type=PAIRS, help="Number of random pairs of sentences.")
@click.option("--seed", default=0, type=SEED, help="Seed of the pairs and of the random references.")
@click.option("--raw", is_flag=True, help=RAW_HELP)
@click.option("--lm", metavar="MODEL", type=FILE, help=LM_HELP)
@click.option("--trigrams", metavar="TABLE", type=PATH, help=TRIGRAMS_HELP)
@click.option("--standard", type=click.Choice(["in-domain", "out-of-domain"]), default="in-domain", help=STANDARD_HELP)
@click.option("--figures/--no-figures", default=True, help="Draw PNG figures (needs linda[plot]).")
@device_option
@engine_option
def command(
    model: str | None,
    sentences: str,
    output: Path,
    pairs: int,
    seed: int,
    raw: bool,
    lm: str | None,
    trigrams: Path | None,
    standard: str,
    figures: bool,
    device: str,
    engine: str,
) -> None:
    """Measure how well MODEL interpolates between random pairs of sentences.

    MODEL is a folder or a name on the hub. Default: the embedded model.

    Writes report.md, report.json, outputs.jsonl and figures, and prints the verdict. docs/reference/measures.md
    explains every measure.
    """
    from transformers.utils.logging import disable_progress_bar

    from linda.errors import LindaError
    from linda.files.textio import writing
    from linda.inspection import STANDARDS, inspect_model, write_inspection
    from linda.inspection.figures import draw_inspection, require_matplotlib
    from linda.inspection.report import check_report_folder, verdict_table
    from linda.interpolation import Interpolator
    from linda.measures.fluency import LanguageModel
    from linda.measures.pairs import draw_pairs
    from linda.middles.ngrams import TrigramModel
    from linda.middles.rerank import SeamRanker
    from linda.model import LindaModel
    from linda.model.checkpoint import model_folder
    from linda.model.pretrained import find_device
    from linda.training.corpus import read_sentences

    if trigrams is not None and lm is None:
        raise LindaError(f"--trigrams {trigrams} is only used for perplexity; add --lm MODEL")
    check_report_folder(output)
    if figures:
        require_matplotlib()
    drawn = draw_pairs(read_sentences(sentences), pairs, seed)
    if not sys.stderr.isatty():
        disable_progress_bar()  # of `transformers`, while it loads the language model
    table = None if trigrams is None else TrigramModel.load(trigrams)
    language_model = None if lm is None else LanguageModel.load(lm)
    ranker = None if table is None or language_model is None else SeamRanker(language_model)
    loaded = LindaModel.from_pretrained(model_folder(model), find_device(device))
    interpolator = Interpolator.of(loaded, engine)
    with writing(output):
        output.mkdir(parents=True, exist_ok=True)
    inspection = inspect_model(
        interpolator,
        loaded,
        drawn,
        language_model=language_model,
        trigrams=table,
        ranker=ranker,
        with_raw=raw,
        seed=seed,
        progress=sys.stderr.isatty(),
    )
    about = {
        "model": model or "embedded",
        "mixing": interpolator.config.mixing,
        "sentences": Path(sentences).name,
        "pairs": pairs,
        "seed": seed,
        "language model": lm and Path(lm).name,
        "trigrams": trigrams and trigrams.name,
        "standard": standard,
        "engine": interpolator.engine.name,
        "calibration": [(round(alpha, 4), round(mixed, 4)) for alpha, mixed in interpolator.config.calibration],
    }
    requirements = write_inspection(inspection, output, about, STANDARDS[standard])
    if figures:
        draw_inspection(inspection, output)
    click.echo(verdict_table(requirements))
    click.echo(f"report: {output / 'report.md'}")
