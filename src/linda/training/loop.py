"""The training loop, on Accelerate: one CPU, several processes or several GPUs, the same command.

A run lives in two folders: `OUTPUT` is the model that comes out, `OUTPUT.training` holds the log, the settings and the
checkpoints that a run is resumed from.
"""

from __future__ import annotations

import itertools
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from linda.engines import choose
from linda.errors import LindaError, reason
from linda.interpolation import Interpolator
from linda.interpolation.calibration import calibrate
from linda.measures.pairs import draw_pairs
from linda.model import LindaModel
from linda.model.checkpoint import check_can_save, model_folder
from linda.model.pretrained import ModelKind, kind_of_model
from linda.training.corpus import Corpus, PairBatch, PairSampler, Tokenizer, read_sentences
from linda.training.middle_batches import MiddleBatch, MiddlePair, MiddleSampler, read_middles, shard_files
from linda.training.runstate import RunFolder
from linda.training.settings import TrainingSettings, learning_rate
from linda.training.stopping import any_process, stop_requests
from linda.training.validation import validate, validate_middles

_VALIDATION_SENTENCES = 256  # half of them first texts, half second ones
_VALIDATION_MIDDLES = 128  # pairs


def train(
    settings: TrainingSettings,
    output: Path,
    *,
    resume: bool = False,
    tensorboard: bool = False,
    calibration: bool = True,
) -> LindaModel:
    """Trains until `settings.steps`, calibrates and writes the model's folder.

    Ctrl-C saves a checkpoint and raises Interrupted.

    Args:
        settings: all that decides what the run computes.
        output: the folder of the model; the run itself is kept in `OUTPUT.training`.
        resume: go on from the last checkpoint.
        tensorboard: log for TensorBoard too.
        calibration: fit the map from the ratio asked for to the ratio mixed, on the held-out sentences.

    Returns:
        The trained model, as it lies in the folder.

    Example:
        >>> train(TrainingSettings(corpus=("sentences.txt",), base="my-base", steps=1000), Path("my-model"))
    """
    from accelerate import Accelerator
    from accelerate.utils import DistributedDataParallelKwargs

    check_can_save(output)
    corpus = Corpus.parse(settings.corpus) if settings.corpus or not settings.middles else None
    if corpus is not None:
        corpus.check_readable()
    held_out = held_out_sentences(settings, corpus)
    data = _Data(corpus, held_out, *_split_middles(settings))

    # Accelerate takes several processes on a CPU for one another's strangers unless it is told where they run.
    on_cpu = "LOCAL_RANK" in os.environ and not torch.accelerator.is_available()
    accelerator = Accelerator(
        mixed_precision=_precision(settings.precision),
        cpu=on_cpu,
        # Some families hold weights that never learn (Marian's position tables).
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
    )
    settings.pairs_per_process(accelerator.num_processes)  # whether they can be shared is told before all else
    is_main = accelerator.is_main_process
    run = RunFolder(output)
    if is_main:
        run.check(resume)
    with _own_randomness([settings.seed]):  # of the base's new rows, if it has any
        model = run.load_model() if run.last_step else start_model(settings)
    positions = model.config.base.get("max_position_embeddings")
    if positions is not None and settings.max_length > positions:
        raise LindaError(f"max_length is {settings.max_length}, but the base reads {positions} tokens; lower it")
    if calibration:
        choose(settings.engine, model.config.base, model.device)  # whether it can run here is told before hours of work
    if is_main:
        run.begin(asdict(settings))  # now that nothing can be wrong with the base
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
        # Crossovers have the share that is asked for: there is nothing to calibrate.
        if calibration and model.config.mixing == "states" and len(set(held_out)) >= 2:
            pairs = draw_pairs(held_out, len(held_out) // 2, settings.seed)
            calibrate(Interpolator.of(model, settings.engine), output, pairs, progress=sys.stderr.isatty())
    accelerator.wait_for_everyone()
    accelerator.end_training()
    return model


@dataclass(frozen=True)
class _Data:
    """What a run trains and validates on."""

    corpus: Corpus | None
    held_out: list[str]
    middles: list[Path]
    held_out_middles: list[MiddlePair]


def _make_updates(
    settings: TrainingSettings,
    accelerator: Any,
    run: RunFolder,
    model: LindaModel,
    data: _Data,
    *,
    tensorboard: bool,
) -> None:
    """Brings the model from the last checkpoint, if there is one, to the last step."""
    is_main = accelerator.is_main_process
    _apply(settings, model)
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True)
    if run.last_step:
        run.load_optimizer(model, optimizer)
    parallel, optimizer = accelerator.prepare(model, optimizer)

    minibatches = _minibatches(model, data, settings, run.last_step * settings.accumulate, accelerator)
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
        while step < settings.steps and not any_process(accelerator, stop.asked):
            started = time.monotonic()
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, settings)
            figures = _update(accelerator, parallel, optimizer, minibatches, settings, step)
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
                        figures |= validate_middles(model, data.held_out_middles)
                    log.write({"step": step, "validation": figures})
            if step % settings.checkpoint_every == 0 or is_last:
                _checkpoint(accelerator, run, model, optimizer, step)
        if step < settings.steps:
            _checkpoint(accelerator, run, model, optimizer, step)
            raise Interrupted(run.output, step)


class Interrupted(LindaError):
    """Ctrl-C or a termination signal; the checkpoint is on disk."""

    def __init__(self, output: Path, step: int) -> None:
        super().__init__(f"stopped after step {step}; go on with `linda train --output {output} --resume`")


def start_model(settings: TrainingSettings) -> LindaModel:
    """A new model around `settings.base`, or the base itself where it is a LINDA model already; by default the embedded
    one."""
    if not settings.base:
        return LindaModel.from_pretrained(model_folder(None))
    if kind_of_model(settings.base) == ModelKind.LINDA:
        return LindaModel.from_pretrained(settings.base)
    return LindaModel.from_seq2seq(settings.base)


def held_out_sentences(settings: TrainingSettings, corpus: Corpus | None) -> list[str]:
    """Sentences to validate on: of a file of their own, or the first of the corpus, which training then skips."""
    if corpus is None and not settings.validation:
        return []
    if settings.validation:
        held_out = list(itertools.islice(read_sentences(settings.validation), _VALIDATION_SENTENCES))
    else:
        assert corpus is not None
        held_out = corpus.hold_out(settings.hold_out)
    if len(held_out) == 1:
        where = f"{settings.validation} has" if settings.validation else "--hold-out 1 takes"
        raise LindaError(f"{where} one sentence, but pairs are validated on: give 2 or more, or none")
    return held_out


def _split_middles(settings: TrainingSettings) -> tuple[list[Path], list[MiddlePair]]:
    """The files to train on, and middles to validate on: the last file, where there are several."""
    if not settings.middles:
        return [], []
    files = shard_files(settings.middles)
    if len(files) == 1:
        return files, []
    return files[:-1], read_middles(files[-1])[:_VALIDATION_MIDDLES]


def _minibatches(
    model: LindaModel, data: _Data, settings: TrainingSettings, first_step: int, accelerator: Any
) -> Iterator[PairBatch | MiddleBatch]:
    """Pairs of the corpus, middles, or both in turn by `pair_share`; the same whatever step they begin at."""
    corpus, middles = data.corpus, data.middles
    rank, ranks = accelerator.process_index, accelerator.num_processes
    share = 0.0 if corpus is None else settings.pair_share if middles else 1.0

    def is_pair(step: int) -> bool:
        """Whether ⌊share·step⌋ rises here: evenly strewn."""
        return math.floor(share * (step + 1)) > math.floor(share * step)

    pairs_before = math.floor(share * first_step)
    pairs: Iterator[PairBatch] = iter(())
    if corpus is not None and share:
        sampler = pair_sampler(model, corpus, settings, rank=rank, ranks=ranks)
        pairs = (batch for _, batch in sampler.batches(pairs_before))
    between: Iterator[MiddleBatch] = iter(())
    if middles:
        between = middle_sampler(model, middles, settings, rank, ranks).batches(first_step - pairs_before)
    for step in itertools.count(first_step):
        yield next(pairs) if is_pair(step) else next(between)


def _tokenizer(model: LindaModel, settings: TrainingSettings) -> Tokenizer:
    def tokenize(masked: list[str], targets: list[str]) -> tuple[list[list[int]], list[list[int]]]:
        limits = {"truncation": True, "max_length": settings.max_length}
        return (
            model.tokenizer(masked, **limits)["input_ids"],
            model.tokenizer(targets, split_special_tokens=True, **limits)["input_ids"],
        )

    return tokenize


def middle_sampler(
    model: LindaModel, files: list[Path], settings: TrainingSettings, rank: int = 0, ranks: int = 1
) -> MiddleSampler:
    """Minibatches of middles for a model."""
    return MiddleSampler(
        files,
        _tokenizer(model, settings),
        mask_token=model.config.mask_token,
        mask_probability=settings.mask_probability,
        pad_id=model.tokenizer.pad_token_id,
        pairs=settings.pairs_per_process(ranks),
        ends=settings.ends,
        seed=settings.seed,
        rank=rank,
        ranks=ranks,
    )


def pair_sampler(
    model: LindaModel, corpus: Corpus, settings: TrainingSettings, rank: int = 0, ranks: int = 1
) -> PairSampler:
    """Minibatches of pairs for a model."""
    return PairSampler(
        corpus,
        _tokenizer(model, settings),
        mask_token=model.config.mask_token,
        mask_probability=settings.mask_probability,
        pad_id=model.tokenizer.pad_token_id,
        pairs=settings.pairs_per_process(ranks),
        seed=settings.seed,
        restyled=settings.restyled,
        middle=settings.middle,
        mirrored=settings.mirrored,
        window=settings.window,
        rank=rank,
        ranks=ranks,
    )


def resumed_settings(output: Path, steps: int | None) -> TrainingSettings:
    """The settings an unfinished run was begun with; only its length may be changed."""
    run = RunFolder(output)
    stored = run.settings()
    try:
        lists = {"corpus": tuple(stored["corpus"]), "middles": tuple(stored.get("middles", ()))}
        settings = TrainingSettings(**stored | lists)
    except (KeyError, TypeError, LindaError) as error:
        raise LindaError(f"{run.settings_file} is damaged ({reason(error)}); begin the run anew") from error
    return settings if steps is None else replace(settings, steps=steps)


def _apply(settings: TrainingSettings, model: LindaModel) -> None:
    for name, value in settings.of_the_model().items():
        setattr(model.config, name, value)
    if settings.mixing == "attention" or model.attention_mixing is not None:
        model.mix_by_attention()  # a base that can do it still can after more training
    if settings.dropout is not None:
        for module in model.modules():
            # Layers keep their rates as plain numbers (BART's family) or as Dropout modules (T5's).
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
    minibatches: Iterator[PairBatch | MiddleBatch],
    settings: TrainingSettings,
    step: int,
) -> dict[str, float]:
    """One update; the figures are means over its minibatches (of this process)."""
    sums: dict[str, Tensor] = {}
    tokens = 0
    for part in range(settings.accumulate):
        batch = next(minibatches)
        tokens += batch.tokens * accelerator.num_processes
        is_whole = part == settings.accumulate - 1
        key = [settings.seed, step, part, accelerator.process_index]
        with _own_randomness(key), nullcontext() if is_whole else accelerator.no_sync(model):
            output = model(**batch.to(accelerator.device))
            accelerator.backward(output.loss / settings.accumulate)
        for name in ("loss", "reconstruction", "penalty", "loss_per_token", "state_norm"):
            sums[name] = sums.get(name, torch.tensor(0.0)) + getattr(output, name).detach().cpu()
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


def _precision(asked: str) -> str:
    if asked != "auto":
        return asked
    return "bf16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "no"


@contextmanager
def _own_randomness(key: list[int]) -> Iterator[None]:
    """Dropout and noise draw from a stream of (seed, step, part, rank), so that a resumed run repeats them."""
    devices = range(torch.cuda.device_count())
    with torch.random.fork_rng(devices):
        torch.manual_seed(_seed_of(key))
        yield


def _seed_of(key: list[int]) -> int:
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0])
