"""The training loop, on Accelerate: the same command for one CPU, several processes or several GPUs.

A run has two folders: `OUTPUT` is the trained model, `OUTPUT.training` has the log, the settings and the checkpoints to
resume from.
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
from linda.training.corpus import Corpus, PairBatch, PairSampler, TextBatch, Tokenizer, read_sentences
from linda.training.middle_batches import MiddleBatch, MiddlePair, MiddleSampler, read_middles, shard_files
from linda.training.runstate import RunFolder
from linda.training.settings import TrainingSettings, learning_rate
from linda.training.stopping import any_process, stop_requests
from linda.training.validation import validate, validate_middles

_VALIDATION_SENTENCES = 256  # half of them first texts, half second texts
_VALIDATION_MIDDLES = 64  # pairs


def train(
    settings: TrainingSettings,
    output: Path,
    *,
    resume: bool = False,
    tensorboard: bool = False,
    calibration: bool = True,
) -> LindaModel:
    """Train until `settings.steps`, calibrate and write the folder of the model.

    Ctrl-C saves a checkpoint and raises `Interrupted`.

    Args:
        settings: the settings of the run.
        output: the folder of the model; the run is stored in `OUTPUT.training`.
        resume: continue from the last checkpoint.
        tensorboard: also log for TensorBoard.
        calibration: fit the map from the requested to the mixed ratio, on the held-out sentences.

    Returns:
        The trained model, as in the folder.

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

    # Accelerate does not connect several CPU processes unless it knows where they run.
    on_cpu = "LOCAL_RANK" in os.environ and not torch.accelerator.is_available()
    accelerator = Accelerator(
        mixed_precision=_precision(settings.precision),
        cpu=on_cpu,
        # Some families have weights that are not trained (Marian's position tables).
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
    )
    settings.pairs_per_process(accelerator.num_processes)  # checked first, before anything is loaded
    settings.texts_per_process(accelerator.num_processes)
    is_main = accelerator.is_main_process
    run = RunFolder(output)
    if is_main:
        run.check(resume)
    with _own_randomness([settings.seed]):  # for new embeddings of the base, if any
        model = run.load_model() if run.last_step else start_model(settings)
    positions = model.config.base.get("max_position_embeddings")
    if positions is not None and settings.max_length > positions:
        raise LindaError(f"max_length is {settings.max_length}, but the base has {positions} positions; lower it")
    if calibration:
        choose(settings.engine, model.config.base, model.device)  # raises an error before hours of work
    if is_main:
        run.begin(asdict(settings))  # after all checks of the base
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
        if calibration and model.config.mixing == "states" and len(set(held_out)) >= 2:
            pairs = draw_pairs(held_out, len(held_out) // 2, settings.seed)
            calibrate(Interpolator.of(model, settings.engine), output, pairs, progress=sys.stderr.isatty())
    accelerator.wait_for_everyone()
    accelerator.end_training()
    return model


@dataclass(frozen=True)
class _Data:
    """The data for training and validation."""

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
    """Train the model from the last checkpoint, if there is one, to the last step."""
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
                        figures |= validate_middles(model, data.held_out_middles, _tokenizer(model, settings))
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
    """Create a model from `settings.base`, or load it if it is a LINDA model already; default: the embedded model."""
    if not settings.base:
        return LindaModel.from_pretrained(model_folder(None))
    if kind_of_model(settings.base) == ModelKind.LINDA:
        return LindaModel.from_pretrained(settings.base)
    return LindaModel.from_seq2seq(settings.base)


def held_out_sentences(settings: TrainingSettings, corpus: Corpus | None) -> list[str]:
    """Return sentences for validation: of a separate file, or the first of the corpus, which training skips."""
    if corpus is None and not settings.validation:
        return []
    if settings.validation:
        held_out = list(itertools.islice(read_sentences(settings.validation), _VALIDATION_SENTENCES))
    else:
        assert corpus is not None
        held_out = corpus.hold_out(settings.hold_out)
    if len(held_out) == 1:
        where = f"{settings.validation} has" if settings.validation else "--hold-out 1 takes"
        raise LindaError(f"{where} one sentence, but validation needs pairs: give 2 or more, or none")
    return held_out


def _split_middles(settings: TrainingSettings) -> tuple[list[Path], list[MiddlePair]]:
    """Return the files for training, and middles for validation: of the last file, if there are several."""
    if not settings.middles:
        return [], []
    files = shard_files(settings.middles)
    if len(files) == 1:
        return files, []
    return files[:-1], read_middles(files[-1])[:_VALIDATION_MIDDLES]


def _minibatches(
    model: LindaModel, data: _Data, settings: TrainingSettings, first_step: int, accelerator: Any
) -> Iterator[PairBatch | TextBatch | MiddleBatch]:
    """Yield pairs and texts of the corpus, and middles, by their shares; independent of the first step."""
    corpus, middles = data.corpus, data.middles
    rank, ranks = accelerator.process_index, accelerator.num_processes
    # Without middles, too: a model that mixes by attention scores crossovers as a language model of its corpus.
    text_share = settings.text_share if corpus is not None and model.attention_mixing is not None else 0.0
    pair_share = 0.0 if corpus is None else settings.pair_share if middles else 1 - text_share
    sampled = {"rank": rank, "ranks": ranks}
    corpus_share = pair_share + text_share

    from_corpus = _spread(corpus_share, first_step)
    from_pairs = _spread(pair_share / corpus_share, from_corpus) if corpus_share else 0
    pairs = texts = between = None
    if corpus is not None and pair_share:
        pairs = pair_sampler(model, corpus, settings, **sampled).batches(from_pairs)
    if corpus is not None and text_share:
        # Plain sentences are pairs that are not mixed; a minibatch may have more of them.
        alone = replace(settings, pairs=settings.texts_per_process(ranks) // 2 * ranks)
        texts = pair_sampler(model, corpus, alone, **sampled).batches(from_corpus - from_pairs)
    if middles:
        between = middle_sampler(model, middles, settings, **sampled).batches(first_step - from_corpus)
    for step in itertools.count(first_step):
        if between and _spread(corpus_share, step + 1) == from_corpus:
            yield next(between)
            continue
        from_corpus += 1
        if pairs and _spread(pair_share / corpus_share, from_corpus) > from_pairs:
            from_pairs += 1
            yield next(pairs)[1]
        elif texts:
            yield TextBatch.of(next(texts)[1])


def _spread(share: float, step: int) -> int:
    """Return how many of the steps before this one belong to a share of all steps, spread evenly."""
    return math.floor(share * step + 1e-9)  # shares may be sums of decimal fractions


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
        candidates=settings.candidates,
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
    """Return the settings of an unfinished run; only its length may be changed."""
    run = RunFolder(output)
    stored = run.settings()
    try:
        lists = {"corpus": tuple(stored["corpus"]), "middles": tuple(stored.get("middles", ()))}
        settings = TrainingSettings(**stored | lists)
    except (KeyError, TypeError, LindaError) as error:
        raise LindaError(f"{run.settings_file} is damaged ({reason(error)}); start the run again") from error
    return settings if steps is None else replace(settings, steps=steps)


def _apply(settings: TrainingSettings, model: LindaModel) -> None:
    model.config = replace(model.config, **settings.of_the_model())  # checked as a whole
    if settings.mixing == "attention" or model.attention_mixing is not None:
        model.mix_by_attention()  # a base with attention mixing keeps it
    if model.device.type == "cpu":
        # Sentences are short, and PyTorch's fused attention has a slow backward pass on a CPU: an update takes 0.75 of
        # the time with plain matrix products (256 sentences of 28 tokens, bfloat16).
        model.seq2seq.set_attn_implementation("eager")
    if settings.dropout is not None:
        for module in model.modules():
            # Layers have dropout rates as plain numbers (BART family) or Dropout modules (T5).
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
    minibatches: Iterator[PairBatch | TextBatch | MiddleBatch],
    settings: TrainingSettings,
    step: int,
) -> dict[str, float]:
    """Run one update; return the means over its minibatches (of this process)."""
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


def _precision(asked: str) -> str:
    if asked != "auto":
        return asked
    return "bf16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "no"


@contextmanager
def _own_randomness(key: list[int]) -> Iterator[None]:
    """Seed dropout and noise by (seed, step, part, rank), so that a resumed run repeats them."""
    devices = range(torch.cuda.device_count())
    with torch.random.fork_rng(devices):
        torch.manual_seed(_seed_of(key))
        yield


def _seed_of(key: list[int]) -> int:
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0])
