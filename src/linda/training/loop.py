"""The training loop, on Accelerate: the same command for one CPU, several processes or several GPUs.

A run has two folders: `OUTPUT` is the trained model, `OUTPUT.training` has the log, the settings and the checkpoints to
resume from.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from linda.engines import choose
from linda.errors import LindaError
from linda.interpolation import Interpolator
from linda.interpolation.calibration import calibrate
from linda.measures.pairs import draw_pairs
from linda.model import LindaModel
from linda.model.checkpoint import check_can_save, model_folder
from linda.model.pretrained import ModelKind, kind_of_model
from linda.training.data import TrainingData, minibatches, tokenizer
from linda.training.pair_batches import Minibatch
from linda.training.runstate import RunFolder
from linda.training.settings import TrainingSettings, learning_rate
from linda.training.stopping import any_process, stop_requests
from linda.training.validation import validate, validate_middles


def train(
    settings: TrainingSettings,
    output: Path,
    *,
    resume: bool = False,
    tensorboard: bool = False,
    calibration: bool = True,
) -> LindaModel:
    """Train for `settings.steps` updates, calibrate the model and write its folder.

    Ctrl-C saves a checkpoint and raises `Interrupted`.

    Args:
        settings: Settings of the run.
        output: Folder of the model; the state of the run is in `OUTPUT.training`.
        resume: Continue from the last checkpoint.
        tensorboard: Also log for TensorBoard.
        calibration: Fit the map from the requested ratio to the mixed ratio, on the held-out sentences.

    Returns:
        The trained model.

    Example:
        >>> train(TrainingSettings(corpus=("sentences.txt",), base="my-base", steps=1000), Path("my-model"))
    """
    from accelerate import Accelerator
    from accelerate.utils import DistributedDataParallelKwargs

    check_can_save(output)
    data = TrainingData.of(settings)
    # Accelerate connects several CPU processes only with cpu=True.
    on_cpu = "LOCAL_RANK" in os.environ and not torch.accelerator.is_available()
    accelerator = Accelerator(
        mixed_precision=_precision(settings.precision),
        cpu=on_cpu,
        # Some families have weights that are not trained (Marian's position embeddings).
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
    )
    settings.pairs_per_process(accelerator.num_processes)  # raises an error before anything is loaded
    settings.texts_per_process(accelerator.num_processes)
    is_main = accelerator.is_main_process
    run = RunFolder(output)
    if is_main:
        run.check(resume)
    with _seeded([settings.seed]):  # new embeddings of the base are random
        model = run.load_model() if run.last_step else start_model(settings)
    length, positions = settings.config.max_length, model.config.base.get("max_position_embeddings")
    if positions is not None and length > positions:
        raise LindaError(f"max_length is {length}, but the base has {positions} positions; lower it")
    if calibration:
        choose(settings.engine, model.config.base, model.device)  # raises an error before hours of work
    if is_main:
        run.begin(settings)
    accelerator.wait_for_everyone()
    try:
        _make_updates(settings, accelerator, run, model, data, tensorboard=tensorboard)
    except LindaError:
        if is_main:
            run.remove_if_without_checkpoint()
        raise
    model.eval()
    if is_main:
        model.save_pretrained(output)
        # Crossovers have the requested share, so they need no calibration.
        if calibration and model.config.mixing == "states" and len(set(data.held_out)) >= 2:
            pairs = draw_pairs(data.held_out, len(data.held_out) // 2, settings.seed)
            calibrate(Interpolator.of(model, settings.engine), output, pairs, progress=sys.stderr.isatty())
    accelerator.wait_for_everyone()
    accelerator.end_training()
    return model


def _make_updates(
    settings: TrainingSettings,
    accelerator: Any,
    run: RunFolder,
    model: LindaModel,
    data: TrainingData,
    *,
    tensorboard: bool,
) -> None:
    """Train the model from the last checkpoint, if any, to the last step."""
    is_main = accelerator.is_main_process
    _apply(settings, model)
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True)
    if run.last_step:
        run.load_optimizer(model, optimizer)
    parallel, optimizer = accelerator.prepare(model, optimizer)

    stream = minibatches(model, data, settings, run.last_step * settings.accumulate, accelerator)
    bar = tqdm(
        total=settings.steps,
        initial=run.last_step,
        unit="step",
        disable=None if is_main else True,
        dynamic_ncols=True,
    )
    log = run.log(tensorboard) if is_main else None
    with stop_requests() as stop, bar:
        step = run.last_step
        while step < settings.steps and not any_process(accelerator, stop.requested):
            started = time.monotonic()
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, settings)
            figures = _update(accelerator, parallel, optimizer, stream, settings, step)
            step += 1
            is_last = step == settings.steps
            if log:
                figures["tokens_per_second"] /= time.monotonic() - started
                log.write({"step": step, **figures, "sigma": model.converter.sigma.item()})
                bar.set_postfix(
                    {
                        "nats/token": f"{figures['loss_per_token']:.2f}",
                        "tokens/s": f"{figures['tokens_per_second']:.0f}",
                    }
                )
                bar.update()
                if step % settings.validate_every == 0 or is_last:
                    figures = validate(model, data.held_out) if data.held_out else {}
                    if data.held_out_middles:
                        figures |= validate_middles(model, data.held_out_middles, tokenizer(model, settings))
                    log.write({"step": step, "validation": figures})
            if step % settings.checkpoint_every == 0 or is_last:
                _checkpoint(accelerator, run, model, optimizer, step)
        if step < settings.steps:
            _checkpoint(accelerator, run, model, optimizer, step)
            raise Interrupted(run.output, step)


class Interrupted(LindaError):
    """Ctrl-C or a termination signal; the checkpoint is on disk."""

    def __init__(self, output: Path, step: int) -> None:
        super().__init__(f"stopped after step {step}; continue with `linda train --output {output} --resume`")


def start_model(settings: TrainingSettings) -> LindaModel:
    """Load the LINDA model `settings.base`, or create one from it; default: the embedded model."""
    if not settings.base:
        return LindaModel.from_pretrained(model_folder(None))
    if kind_of_model(settings.base) == ModelKind.LINDA:
        return LindaModel.from_pretrained(settings.base)
    return LindaModel.from_seq2seq(settings.base)


def _apply(settings: TrainingSettings, model: LindaModel) -> None:
    own = model.config
    model.config = replace(settings.config, base=own.base, mask_token=own.mask_token, calibration=own.calibration)
    if settings.config.mixing == "attention" or model.attention_mixing is not None:
        model.mix_by_attention()  # a base with attention mixing keeps it
    if model.device.type == "cpu":
        # PyTorch's fused attention has a slow backward pass on a CPU: for short sentences, plain matrix products take
        # 25 % less time per update (measured with 256 sentences of 28 tokens, bfloat16).
        model.seq2seq.set_attn_implementation("eager")
    if settings.dropout is not None:
        for module in model.modules():
            # Dropout rates are attributes of the layers (BART family) or Dropout modules (T5).
            if isinstance(module, torch.nn.Dropout):
                module.p = settings.dropout
            for name in ("dropout", "activation_dropout", "attention_dropout"):
                if isinstance(getattr(module, name, None), float):
                    setattr(module, name, settings.dropout)
    model.train()


def _update(
    accelerator: Any,
    model: torch.nn.Module,
    optimizer: Any,
    stream: Iterator[Minibatch],
    settings: TrainingSettings,
    step: int,
) -> dict[str, float]:
    """Run one update; return the means over its minibatches (of this process)."""
    sums: dict[str, Tensor] = {}
    tokens = 0
    for part in range(settings.accumulate):
        batch = next(stream)
        tokens += batch.tokens * accelerator.num_processes
        is_last = part == settings.accumulate - 1
        key = [settings.seed, step, part, accelerator.process_index]
        with _seeded(key), nullcontext() if is_last else accelerator.no_sync(model):
            output = model(**batch.to(accelerator.device))
            accelerator.backward(output.loss / settings.accumulate)
        for name in ("loss", "reconstruction", "penalty", "loss_per_token", "state_norm", "choice"):
            if (figure := getattr(output, name)) is not None:
                sums[name] = sums.get(name, torch.tensor(0.0)) + figure.detach().cpu()
    if settings.clip:
        accelerator.clip_grad_norm_(model.parameters(), settings.clip)
    optimizer.step()
    optimizer.zero_grad()
    figures = {name: total.item() / settings.accumulate for name, total in sums.items()}
    if not math.isfinite(figures["loss"]):
        raise LindaError(f"the loss is {figures['loss']} at step {step + 1}; try a smaller --learning-rate")
    return figures | {"learning_rate": optimizer.param_groups[0]["lr"], "tokens_per_second": tokens}


def _checkpoint(accelerator: Any, run: RunFolder, model: LindaModel, optimizer: Any, step: int) -> None:
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        run.save(model, optimizer, step)
    accelerator.wait_for_everyone()


def _precision(given: str) -> str:
    if given != "auto":
        return given
    return "bf16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "no"


@contextmanager
def _seeded(key: list[int]) -> Iterator[None]:
    """Seed dropout and noise by (seed, step, part, rank), so that a resumed run repeats them."""
    devices = range(torch.cuda.device_count())
    with torch.random.fork_rng(devices):
        torch.manual_seed(_seed_of(key))
        yield


def _seed_of(key: list[int]) -> int:
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0])
