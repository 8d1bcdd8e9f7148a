"""`linda train`."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from linda.cli.options import PATH
from linda.engines import NAMES
from linda.errors import LindaError

_HELP = {
    "validation": "File of held-out sentences; without one, the first of the corpus are held out.",
    "hold_out": "How many of them.",
    "base": "Encoder-decoder to start from: a folder, a name on the hub, or a LINDA model to train further; by default "
    "the embedded one (small) or facebook/bart-large (paper).",
    "steps": "Updates.",
    "pairs": "Pairs in a minibatch, of all processes together.",
    "accumulate": "Minibatches in an update.",
    "learning_rate": "Rate after the warm-up.",
    "warmup": "Updates in which the rate rises from 0.",
    "decay": "Share of the run, at its end, in which the rate falls to 0.",
    "weight_decay": "AdamW's.",
    "clip": "Largest norm of the gradient; 0 clips nothing.",
    "dropout": "In place of the base's own.",
    "mixing": "states: add the states of both texts (the paper); attention: let the decoder read both.",
    "pair_share": "With --middles: share of minibatches from CORPUS, with the paper's objective.",
    "ends": "With --middles: share of pairs that also get a copy of one text as a target.",
    "mask_probability": "Share of words that are masked.",
    "norm_penalty": "λ: weight of the states' squared norms.",
    "noise": "Standard deviation of the noise on the states.",
    "middle_noise": "More of it half-way between two texts, as a share of each state's norm; none at the ends.",
    "mirrored": "Whether each text of a pair is the only target of a mixture of its own: the same mean, less noise.",
    "softmax_sample": "Pieces, beside a minibatch's own, that the softmax is estimated from; 0 takes all.",
    "restyled": "Share of sentences put in lower case, without full stop, cut off …",
    "middle": "α ~ Beta(m, m): 1 is uniform, more draws from the middle.",
    "max_length": "Tokens beyond which a sentence is cut.",
    "window": "Sentences held in memory and shuffled at a time.",
    "precision": "auto, no, bf16 or fp16.",
    "engine": "Inference engine that calibrates the trained model; auto selects the fastest one available.",
    "seed": "Of masks, pairs, ratios, noise and dropout.",
    "validate_every": "Updates between two validations.",
    "checkpoint_every": "Updates between two checkpoints.",
}


def _with_setting_options(function: Any) -> Any:
    """One option per field of TrainingSettings. The types stand here so that --help need not import torch."""
    whole = {"hold_out", "steps", "pairs", "accumulate", "warmup", "max_length", "window", "seed", "softmax_sample"}
    whole |= {"validate_every", "checkpoint_every"}
    words = {"validation", "base", "precision", "mixing"}
    for name, text in reversed(_HELP.items()):
        kind: Any = int if name in whole else str if name in words else bool if name == "mirrored" else float
        if name == "engine":
            kind = click.Choice(["auto", *NAMES])
        flag = "--" + name.replace("_", "-")
        function = click.option(flag, name, type=kind, help=text + " [preset's]")(function)
    return function


@click.command()
@click.argument("corpus", nargs=-1)
@click.option("--output", "-o", required=True, type=PATH, help="Model folder to write.")
@click.option(
    "--preset",
    type=click.Choice(["paper", "small"]),
    default="small",
    show_default=True,
    help="paper: BART-large with the paper's settings; small: those of the embedded model.",
)
@click.option("--middles", multiple=True, help="Folder of middles to learn from (`linda middles make`); repeatable.")
@click.option("--resume", is_flag=True, help="Go on from the last checkpoint, with the settings it was begun with.")
@click.option("--no-calibration", is_flag=True, help="Leave the map from ratio asked for to ratio mixed as it is.")
@click.option("--tensorboard", is_flag=True, help="Log for TensorBoard too (pip install 'linda[tensorboard]').")
@_with_setting_options
def command(
    corpus: tuple[str, ...],
    output: Path,
    preset: str,
    middles: tuple[str, ...],
    resume: bool,
    no_calibration: bool,
    tensorboard: bool,
    **given: Any,
) -> None:
    """Train a LINDA model on plain sentences, without any label.

    CORPUS is one or more files, one sentence a line (.txt, where all before a tab is left out; .jsonl with a field
    "text"; .gz and .xz too), or hub:NAME for a data set of the hub. FILE=0.25 mixes a file in so that a quarter of all
    sentences come from it.

    \b
    linda train wiki.txt.xz reviews.txt.gz=0.2 --base Helsinki-NLP/opus-mt-fr-en --output my-model
    linda train wiki.txt.xz --preset paper --output linda-bart-large
    linda train --middles middles --mixing attention --base my-model --output my-model-2
    accelerate launch --multi-gpu -m linda train wiki.txt.xz --preset paper --output linda-bart-large
    torchrun --nproc-per-node 2 -m linda train wiki.txt.xz --base my-base --output my-model  (two CPU processes)

    Ctrl-C saves a checkpoint; `linda train --output OUTPUT --resume` goes on as if never stopped. The log, the settings
    and the checkpoints are in OUTPUT.training, the model is in OUTPUT.
    """
    from linda.interpolation.calibration import RAW
    from linda.training import PRESETS, resumed_settings, train

    asked = {name: value for name, value in given.items() if value is not None}
    for name in ("base", "validation"):
        if asked.get(name) == "":
            raise LindaError(f"--{name} is empty; give a name, or leave the option out")
    if middles:
        asked.setdefault("mixing", "attention")
    if resume:
        if corpus or middles or set(asked) - {"steps"}:
            names = ", ".join(["CORPUS"] * bool(corpus) + ["middles"] * bool(middles) + sorted(set(asked) - {"steps"}))
            raise LindaError(f"--resume keeps the settings of the run; only --steps may change, not {names}")
        settings = resumed_settings(output, asked.get("steps"))
    else:
        settings = replace(PRESETS[preset], corpus=corpus, middles=middles, **asked)
    model = train(settings, output, resume=resume, tensorboard=tensorboard, calibration=not no_calibration)
    is_raw = not no_calibration and settings.mixing == "states" and model.config.calibration == RAW
    if is_raw and os.environ.get("RANK", "0") == "0":
        click.echo("linda: no held-out sentences to calibrate on; see `linda calibrate`", err=True)
