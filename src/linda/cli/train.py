"""`linda train`."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import click

from linda.cli.grouped_help import GroupedCommand
from linda.cli.options import PATH
from linda.engines import NAMES
from linda.errors import LindaError


class _Setting(NamedTuple):
    """An option with its defaults in both presets, repeated here so that --help need not import torch (tested)."""

    kind: Any
    help: str
    small: Any
    paper: Any


# Group: name of a setting (`TrainingSettings.by_name`): the option.
_SETTINGS = {
    "Data": {
        "validation": _Setting(str, "File of held-out sentences, instead of --hold-out.", None, None),
        "hold_out": _Setting(int, "Number of sentences at the start of CORPUS to hold out.", 100, 100),
        "restyled": _Setting(
            float, "Share of sentences to change in style: lower case, no full stop, cut off.", 0.35, 0.0
        ),
        "mask_probability": _Setting(float, "Probability of masking a word.", 0.1, 0.1),
        "max_length": _Setting(int, "Maximum tokens of a sentence; longer ones are cut.", 128, 128),
        "window": _Setting(int, "Size of the shuffle buffer, in sentences.", 65536, 65536),
        "pair_share": _Setting(float, "With --middles: share of minibatches from CORPUS.", 0.2, 0.2),
        "text_share": _Setting(
            float, "With attention mixing: share of minibatches for language modelling of CORPUS.", 0.3, 0.3
        ),
        "candidates": _Setting(
            int, "With --middles: candidate crossovers per ratio in the ranking loss; 1 disables it.", 5, 5
        ),
        "ends": _Setting(float, "With --middles: share of pairs with a copy of one text as an extra target.", 0.4, 0.4),
    },
    "Model and objective": {
        "base": _Setting(
            str,
            "Encoder-decoder to start from: a folder, a hub name, or a LINDA model.",
            "the embedded model",
            "facebook/bart-large",
        ),
        "mixing": _Setting(
            str,
            "states: interpolate encoder states; attention: attend to both texts (default with --middles).",
            "states",
            "states",
        ),
        "middle": _Setting(float, "Draw the ratio from Beta(m, m); 1 is uniform.", 1.0, 1.0),
        "noise": _Setting(float, "Standard deviation of the noise on states.", 0.001, 0.001),
        "middle_noise": _Setting(float, "Additional noise at ratio 0.5, relative to the norm of a state.", 3.4, 0.0),
        "norm_penalty": _Setting(float, "Weight λ of the squared norms of states.", 0.001, 0.001),
        "mirrored": _Setting(bool, "Mix each pair in both orders, with the first text as the target.", True, False),
        "softmax_sample": _Setting(int, "Size of the sampled softmax, in tokens; 0 for the full softmax.", 6000, 0),
    },
    "Optimization": {
        "steps": _Setting(int, "Number of updates.", 20_000, 125_000),
        "pairs": _Setting(int, "Pairs per minibatch, of all processes together.", 32, 8),
        "texts": _Setting(int, "Sentences per minibatch for language modelling; 0 means twice --pairs.", 0, 0),
        "accumulate": _Setting(int, "Minibatches per update.", 1, 1),
        "learning_rate": _Setting(float, "Learning rate after the warm-up.", 3e-4, 1e-5),
        "warmup": _Setting(int, "Updates of linear warm-up.", 100, 0),
        "decay": _Setting(float, "Final share of the run in which the learning rate falls to 0.", 0.3, 0.0),
        "weight_decay": _Setting(float, "Weight decay of AdamW.", 0.0, 0.0),
        "clip": _Setting(float, "Maximum gradient norm; 0 disables clipping.", 1.0, 0.0),
        "dropout": _Setting(float, "Dropout; the paper keeps that of the base.", 0.0, None),
        "precision": _Setting(str, "Precision: auto, no, bf16 or fp16.", "auto", "auto"),
        "engine": _Setting(
            click.Choice(["auto", *NAMES]), "Inference engine for the calibration at the end.", "auto", "torch"
        ),
        "seed": _Setting(int, "Seed of masks, pairs, ratios, noise and dropout.", 0, 0),
    },
    "Progress": {
        "validate_every": _Setting(int, "Updates between validations.", 1000, 1000),
        "checkpoint_every": _Setting(int, "Updates between checkpoints.", 500, 500),
    },
}

GROUPS = {
    "Run": ("output", "preset", "middles", "resume", "no_calibration"),
    **{group: tuple(settings) for group, settings in _SETTINGS.items()},
    "Progress": (*_SETTINGS["Progress"], "tensorboard"),
}

EXAMPLES = """\b
Examples:
  Train the embedded model further; a fifth of the sentences come from the second file:
    linda train tickets.txt wiki.txt.xz=0.2 --steps 5000 --output my-model
  The model of the paper:
    linda train wiki.txt.xz --preset paper --output linda-bart-large
"""


def _with_setting_options(function: Any) -> Any:
    """Add one option per setting."""
    for settings in reversed(_SETTINGS.values()):
        for name, setting in reversed(settings.items()):
            flag = "--" + name.replace("_", "-")
            function = click.option(flag, name, type=setting.kind, help=setting.help + _default(setting))(function)
    return function


def _default(setting: _Setting) -> str:
    small, paper = (_shown(value) for value in (setting.small, setting.paper))
    if paper in (small, ""):
        return f"  [default: {small}]" if small else ""
    return f"  [default: {small}; paper: {paper}]"


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


@click.command(cls=GroupedCommand, groups=GROUPS, epilog=EXAMPLES)
@click.argument("corpus", nargs=-1)
@click.option("--output", "-o", required=True, type=PATH, help="Model folder to write.")
@click.option(
    "--preset",
    type=click.Choice(["paper", "small"]),
    default="small",
    help="Defaults of the other options: those of the paper with BART-large, or those of the embedded model.",
)
@click.option("--middles", multiple=True, help="Folder written by `linda middles make` to learn from. Can be repeated.")
@click.option("--resume", is_flag=True, help="Continue from the last checkpoint, with the settings of the run.")
@click.option("--no-calibration", is_flag=True, help="Do not fit the calibration of the ratio at the end.")
@click.option("--tensorboard", is_flag=True, help="Also log for TensorBoard (pip install 'linda[tensorboard]').")
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
    """Train a LINDA model on plain sentences, without labels.

    CORPUS is one or more files of sentences: .txt (one per line; text up to a tab is ignored) or .jsonl (field "text"),
    plain, .gz or .xz; or hub:NAME for a data set on the hub. With FILE=0.25, a quarter of all sentences come from this
    file.

    Ctrl-C saves a checkpoint; `linda train --output OUTPUT --resume` continues as if the run had not been interrupted.
    The log, the settings and the checkpoints are written to OUTPUT.training, the model to OUTPUT. To use several GPUs
    or processes, run the command with `accelerate launch` or `torchrun`.
    """
    from linda.interpolation.calibration import RAW
    from linda.training import PRESETS, resumed_settings, train

    given = {name: value for name, value in given.items() if value is not None}
    for name in ("base", "validation"):
        if given.get(name) == "":
            raise LindaError(f"--{name} is empty; give a name, or leave the option out")
    if middles:
        given.setdefault("mixing", "attention")
    if resume:
        if corpus or middles or set(given) - {"steps"}:
            names = ", ".join(["CORPUS"] * bool(corpus) + ["middles"] * bool(middles) + sorted(set(given) - {"steps"}))
            raise LindaError(f"--resume keeps the settings of the run; only --steps can be changed, not {names}")
        settings = resumed_settings(output, given.get("steps"))
    else:
        settings = PRESETS[preset].changed(corpus=corpus, middles=middles, **given)
    model = train(settings, output, resume=resume, tensorboard=tensorboard, calibration=not no_calibration)
    is_raw = not no_calibration and settings.config.mixing == "states" and model.config.calibration == RAW
    if is_raw and os.environ.get("RANK", "0") == "0":
        click.echo("linda: no held-out sentences to calibrate on; see `linda calibrate`", err=True)
