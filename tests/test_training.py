import json
import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from linda.cli import main
from linda.config import LindaConfig
from linda.errors import LindaError
from linda.model import LindaModel
from linda.model.checkpoint import EMBEDDED
from linda.training import PRESETS, TrainingSettings, learning_rate, loop, resumed_settings
from linda.training.corpus import Corpus
from linda.training.data import pair_sampler
from linda.training.loop import _seed_of, start_model

train = partial(loop.train, calibration=False)  # tested separately, because it takes as long as the rest

SENTENCES = [
    f"{who} {did} {where}"
    for who in ("the cat", "the old dog", "a small man", "the woman", "who")
    for did in ("sat", "ran", "was", "saw the river and sat")
    for where in ("in the city", "on the red river", "in the old city of the man")
]


def write_corpus(folder: Path) -> str:
    path = folder / "corpus.txt"
    path.write_text("".join(sentence + "\n" for sentence in SENTENCES))
    return str(path)


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    return write_corpus(tmp_path)


@pytest.fixture
def settings(corpus: str, tiny_base_folder: Path) -> TrainingSettings:
    return small_settings(corpus, tiny_base_folder)


def small_settings(corpus: str, base: Path) -> TrainingSettings:
    return TrainingSettings(
        corpus=(corpus,),
        hold_out=8,
        base=str(base),
        steps=8,
        pairs=4,
        learning_rate=3e-3,
        warmup=2,
        decay=0.5,
        dropout=0.1,
        config=LindaConfig(middle_noise=0.1),
        validate_every=4,
        checkpoint_every=3,
    )


def _log(output: Path) -> list[dict[str, Any]]:
    lines = output.with_name(output.name + ".training").joinpath("log.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def _losses(output: Path) -> dict[int, float]:
    return {entry["step"]: entry["loss"] for entry in _log(output) if "loss" in entry}


class TestLearningRate:
    def test_rises_holds_and_falls(self) -> None:
        settings = TrainingSettings(steps=100, learning_rate=1.0, warmup=10, decay=0.2)
        assert learning_rate(0, settings) == pytest.approx(0.1)
        assert learning_rate(9, settings) == learning_rate(79, settings) == 1.0
        assert learning_rate(90, settings) == pytest.approx(0.5)
        assert learning_rate(99, settings) == pytest.approx(0.05)

    def test_the_papers_is_fixed(self) -> None:
        assert {learning_rate(step, PRESETS["paper"]) for step in (0, 60_000, 124_999)} == {1e-5}


@pytest.mark.parametrize(
    "wrong",
    [{"noise": -0.1}, {"middle_noise": -1.0}, {"norm_penalty": -0.001}, {"max_length": 2}, {"softmax_sample": -1}],
)
def test_what_the_model_would_refuse_is_refused_before_the_first_step(wrong: dict[str, Any]) -> None:
    with pytest.raises(LindaError, match=next(iter(wrong))):
        TrainingSettings().changed(**wrong)


def test_the_settings_of_an_earlier_run_are_read(tmp_path: Path) -> None:
    """The earlier format of `settings.json`: one flat object."""
    folder = tmp_path / "model.training"
    folder.mkdir()
    stored = {"corpus": ["wiki.txt"], "base": "my-base", "steps": 5, "noise": 0.002, "mirrored": True, "max_length": 64}
    (folder / "settings.json").write_text(json.dumps(stored))
    read = resumed_settings(tmp_path / "model", None)
    config = LindaConfig(noise=0.002, mirrored=True, max_length=64)
    assert read == TrainingSettings(corpus=("wiki.txt",), base="my-base", steps=5, config=config)


def test_the_paper_preset_is_the_papers() -> None:
    """§4: BART-large, a million pairs, batch 8, Adam at a fixed 1e-5, p_mask 0.1, λ 0.001, noise 0.001."""
    paper = PRESETS["paper"]
    assert paper.base == "facebook/bart-large"
    assert paper.steps * paper.pairs == 1_000_000
    assert (paper.pairs, paper.learning_rate, paper.weight_decay, paper.warmup, paper.decay) == (8, 1e-5, 0, 0, 0)
    config = paper.config
    assert (config.mask_probability, config.norm_penalty, config.noise, config.middle_noise) == (0.1, 0.001, 0.001, 0)
    assert (paper.restyled, paper.middle, config.mirrored, config.softmax_sample) == (0, 1, False, 0)
    assert (paper.clip, paper.accumulate, paper.engine) == (0, 1, "torch")  # the paper clips no gradients
    assert PRESETS["small"].clip == 1  # as the embedded model was trained


def test_pairs_are_shared_by_all_processes(settings: TrainingSettings, tiny_model: LindaModel) -> None:
    paper = PRESETS["paper"]
    assert [paper.pairs_per_process(processes) for processes in (1, 2, 4, 8)] == [8, 4, 2, 1]
    with pytest.raises(LindaError, match=r"pairs is 8, which 16 processes cannot share equally; .* multiple of 16"):
        paper.pairs_per_process(16)
    for ranks in (1, 2, 4):
        rows = 0
        for rank in range(ranks):
            sampler = pair_sampler(tiny_model, Corpus.parse(settings.corpus), settings, rank=rank, ranks=ranks)
            rows += len(next(sampler.batches(0))[1].alpha)
        assert rows == settings.pairs
    with pytest.raises(LindaError, match="pairs is 4, which 3 processes cannot share"):
        pair_sampler(tiny_model, Corpus.parse(settings.corpus), settings, ranks=3)


def test_the_engine_of_the_settings_calibrates(
    settings: TrainingSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = []
    of = loop.Interpolator.of

    def noted(model: LindaModel, engine: str) -> Any:
        used.append(engine)
        return of(model, engine)

    monkeypatch.setattr(loop.Interpolator, "of", noted)
    loop.train(settings.changed(steps=1), tmp_path / "model")
    assert used == [PRESETS["paper"].engine] == ["torch"]
    assert PRESETS["small"].engine == "auto"


class TestTrain:
    def test_learns_and_writes_a_model(self, settings: TrainingSettings, tmp_path: Path) -> None:
        output = tmp_path / "model"
        changes = {"decay": 0.0, "dropout": 0.0, "middle_noise": 0.0, "mirrored": True, "softmax_sample": 40}
        train(settings.changed(steps=60, **changes), output)
        losses = [entry["loss_per_token"] for entry in _log(output) if "loss" in entry]
        assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
        model = LindaModel.from_pretrained(output)
        assert (model.config.middle_noise, model.config.mirrored, model.config.softmax_sample) == (0.0, True, 40)
        assert {path.name for path in output.iterdir()} >= {"config.json", "model.safetensors", "tokenizer.json"}

    def test_validates_with_the_figures_that_matter(self, settings: TrainingSettings, tmp_path: Path) -> None:
        train(settings, tmp_path / "model")
        reports = [entry["validation"] for entry in _log(tmp_path / "model") if "validation" in entry]
        assert len(reports) == 2
        assert set(reports[0]["loss_per_token"]) == {"0.0", "0.25", "0.5", "0.75", "1.0"}
        assert 0 <= reports[0]["precision_a"] <= 1
        figures = _log(tmp_path / "model")[0]
        assert {"sigma", "state_norm", "learning_rate", "tokens_per_second"} <= set(figures)

    def test_accumulating_four_small_minibatches_counts_them_all(
        self, settings: TrainingSettings, tmp_path: Path
    ) -> None:
        train(settings.changed(accumulate=3, steps=2), tmp_path / "model")
        assert len(_losses(tmp_path / "model")) == 2

    def test_dropout_is_as_asked(self, settings: TrainingSettings, tmp_path: Path) -> None:
        model = train(settings.changed(dropout=0.0, steps=1), tmp_path / "model")
        assert model.seq2seq.model.encoder.layers[0].dropout == 0.0

    def test_a_loss_that_is_no_number_stops_the_run(
        self, settings: TrainingSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(loop, "learning_rate", lambda step, settings: 1e30)
        with pytest.raises(LindaError, match="learning-rate"):
            train(settings.changed(clip=0.0, steps=20, decay=0.0), tmp_path / "model")


class TestResume:
    def test_goes_on_as_if_never_stopped(self, settings: TrainingSettings, tmp_path: Path) -> None:
        """Stopped after a checkpoint and resumed: the same losses, with dropout and noise, and the same weights."""
        whole = train(settings, tmp_path / "whole")
        folder = tmp_path / "parts"
        with pytest.raises(LindaError, match="stopped after step 5"):
            _train_and_interrupt(settings, folder, after=5)
        parts = train(resumed_settings(folder, None), folder, resume=True)
        assert _losses(folder) == _losses(tmp_path / "whole")
        for name, tensor in whole.state_dict().items():
            assert torch.equal(tensor, parts.state_dict()[name]), name

    def test_after_a_kill_only_steps_past_the_checkpoint_are_done_again(
        self, settings: TrainingSettings, tmp_path: Path
    ) -> None:
        train(settings, tmp_path / "whole")
        folder = tmp_path / "killed"
        run = _start(settings, folder, tmp_path)
        _wait_for(folder.with_name("killed.training") / "step-0000003", run)
        run.kill()
        run.wait()
        train(resumed_settings(folder, None), folder, resume=True)
        # Two processes may sum in a different order: equal except for the last digits.
        assert _losses(folder) == pytest.approx(_losses(tmp_path / "whole"), rel=1e-4)

    def test_may_go_on_for_longer(self, settings: TrainingSettings, tmp_path: Path) -> None:
        train(settings, tmp_path / "model")
        train(resumed_settings(tmp_path / "model", 10), tmp_path / "model", resume=True)
        assert max(_losses(tmp_path / "model")) == 10

    def test_an_earlier_run_is_not_overwritten(self, settings: TrainingSettings, tmp_path: Path) -> None:
        train(settings.changed(steps=1), tmp_path / "model")
        with pytest.raises(LindaError, match="--resume"):
            train(settings, tmp_path / "model")

    def test_nothing_to_resume(self, settings: TrainingSettings, tmp_path: Path) -> None:
        with pytest.raises(LindaError, match="no checkpoint"):
            train(settings, tmp_path / "model", resume=True)
        with pytest.raises(LindaError, match="no run to resume"):
            resumed_settings(tmp_path / "nothing", None)

    def test_a_run_that_could_not_begin_leaves_nothing(self, settings: TrainingSettings, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        with pytest.raises(LindaError, match="cannot be loaded as a base"):
            train(settings.changed(base=str(tmp_path / "empty")), tmp_path / "model")
        train(settings.changed(steps=1), tmp_path / "model")

    def test_a_run_without_a_checkpoint_says_the_one_way_out(self, settings: TrainingSettings, tmp_path: Path) -> None:
        begun = tmp_path / "model.training"
        begun.mkdir()
        (begun / "settings.json").write_text("{}")
        with pytest.raises(LindaError, match=r"contains an earlier run; remove the folder$"):
            train(settings, tmp_path / "model")
        with pytest.raises(LindaError, match="remove the folder and run without --resume"):
            train(settings, tmp_path / "model", resume=True)


def test_the_function_calibrates_as_the_command_does(
    settings: TrainingSettings, corpus: str, tiny_base_folder: Path, tmp_path: Path
) -> None:
    trained = loop.train(settings.changed(steps=2), tmp_path / "by-function")
    stored = json.loads((tmp_path / "by-function.training" / "settings.json").read_text())
    given = {name: value for name, value in stored.items() if name not in ("corpus", "middles", "validation", "base")}
    options = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
    arguments = ["train", corpus, "-o", str(tmp_path / "by-command"), "--base", str(tiny_base_folder), *options]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    by_function, by_command = (LindaModel.from_pretrained(tmp_path / name) for name in ("by-function", "by-command"))
    assert trained.config.calibration == by_function.config.calibration == by_command.config.calibration
    assert len(trained.config.calibration) > 2


def test_the_global_random_state_is_left_alone(settings: TrainingSettings, tmp_path: Path) -> None:
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    train(settings.changed(steps=1), tmp_path / "model")
    assert before == (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())


def test_the_embedded_model_is_the_base_of_the_small_preset() -> None:
    model = start_model(PRESETS["small"])
    assert model.config.base == LindaModel.from_pretrained(EMBEDDED).config.base


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"corpus": 5}', '{"corpus": ["a"], "steps": "two"}', "{" * 10_000]
)
def test_damaged_settings_of_a_run_are_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "model.training").mkdir()
    (tmp_path / "model.training" / "settings.json").write_text(content)
    with pytest.raises(LindaError, match=r"settings\.json"):
        resumed_settings(tmp_path / "model", None)


def test_a_file_in_place_of_the_folder_of_a_run(settings: TrainingSettings, tmp_path: Path) -> None:
    (tmp_path / "model.training").write_text("mine")
    with pytest.raises(LindaError, match="is not the folder of a run"):
        train(settings, tmp_path / "model")
    assert (tmp_path / "model.training").read_text() == "mine"


@pytest.mark.parametrize(
    "wrong",
    [
        {"noise": -0.1}, {"max_length": 2}, {"hold_out": -1}, {"seed": -1}, {"seed": 2**70}, {"warmup": -1},
        {"clip": -1.0}, {"clip": float("inf")}, {"dropout": 1.0}, {"weight_decay": float("nan")}, {"steps": 1.5},
        {"steps": "10"}, {"learning_rate": float("inf")}, {"window": True}, {"middle": 0.0}, {"base": 5},
        {"corpus": "a.txt"}, {"engine": "steam"}, {"mirrored": "yes"}, {"softmax_sample": -1}, {"validation": 5},
        {"config": {"noise": 0.1}},
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_make_no_sense_are_named_before_the_first_step(wrong: dict[str, Any]) -> None:
    with pytest.raises(LindaError, match=next(iter(wrong))):
        TrainingSettings(corpus=("a.txt",)).changed(**wrong)


def test_nothing_but_a_model_is_replaced(settings: TrainingSettings, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(LindaError, match="already exists and does not contain a LINDA model; give another folder"):
        train(settings, tmp_path)


def test_every_step_part_and_rank_has_a_seed_of_its_own() -> None:
    keys = [[12345, step, part, rank] for step in range(2000) for part in range(2) for rank in range(2)]
    assert len({_seed_of(key) for key in keys}) == len(keys)


def test_one_held_out_sentence_makes_no_pair(settings: TrainingSettings, tmp_path: Path) -> None:
    with pytest.raises(LindaError, match="--hold-out 1 takes one sentence"):
        train(settings.changed(hold_out=1), tmp_path / "model")


class TestCommandLine:
    def test_trains_from_its_options(self, corpus: str, tiny_base_folder: Path, tmp_path: Path) -> None:
        output = tmp_path / "model"
        arguments = ["train", corpus, "-o", str(output), "--base", str(tiny_base_folder)]
        arguments += ["--steps", "2", "--pairs", "4", "--hold-out", "4"]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
        assert LindaModel.from_pretrained(output).config.calibration[0] == (0.0, 0.0)
        assert LindaModel.from_pretrained(output).config.mask_probability == PRESETS["small"].config.mask_probability
        assert resumed_settings(output, None).steps == 2

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            (["missing.txt", "--base", "BASE"], "missing.txt"),
            ([], "has no file without a share; give at least one"),
            (["CORPUS", "--base", "BASE", "--hold-out", "-1"], "hold_out is -1"),
            (["CORPUS", "--base", "BASE", "--seed", "-1"], "seed is -1"),
            (["CORPUS", "--base", "BASE", "--seed", str(2**64)], "seed is 18446744073709551616"),
            (["CORPUS", "--base", "BASE", "--max-length", "0"], "max_length is 0"),
            (["CORPUS", "--base", "BASE", "--max-length", "129"], "max_length is 129"),
            (["CORPUS", "--base", "BASE", "--warmup", "-1"], "warmup is -1"),
            (["CORPUS", "--base", "BASE", "--clip", "inf"], "clip is inf"),
            (["CORPUS", "--base", "BASE", "--clip", "-1"], "clip is -1"),
            (["CORPUS", "--base", "BASE", "--noise", "-0.1"], "noise is -0.1"),
            (["CORPUS", "--base", "BASE", "--norm-penalty", "-0.1"], "norm_penalty is -0.1"),
            (["CORPUS", "--base", "BASE", "--learning-rate", "nan"], "learning_rate is nan"),
            (["CORPUS", "--base", "BASE", "--steps", "0"], "steps is 0"),
            (["CORPUS", "--base", "BASE", "--precision", "int3"], "int3"),
            (["CORPUS", "--resume"], "CORPUS"),
        ],
    )
    def test_bad_input_is_one_line(
        self, arguments: list[str], expected: str, corpus: str, tiny_base_folder: Path, tmp_path: Path
    ) -> None:
        names = {"CORPUS": corpus, "BASE": str(tiny_base_folder)}
        arguments = [names.get(argument, argument) for argument in arguments]
        result = CliRunner().invoke(main, ["train", *arguments, "-o", str(tmp_path / "model")])
        assert result.exit_code == 2
        assert expected in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1


def test_ctrl_c_saves_and_says_how_to_go_on(settings: TrainingSettings, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    run = _start(settings.changed(steps=100_000), folder, tmp_path)
    _wait_for(folder.with_name("model.training") / "step-0000003", run)
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=60)
    assert "--resume" in errors
    last = max(_losses(folder))
    assert (folder.with_name("model.training") / f"step-{last:07d}" / "model" / "config.json").is_file()


def _options(settings: TrainingSettings, output: Path) -> list[str]:
    given = {name: value for name, value in settings.by_name().items() if value not in (None, ())}
    given.pop("corpus", None)
    options = [part for name, value in given.items() for part in ("--" + name.replace("_", "-"), str(value))]
    return [*settings.corpus, "--output", str(output), "--no-calibration", *options]


def _start(settings: TrainingSettings, output: Path, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "linda", "train", *_options(settings, output)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _wait_for(path: Path, run: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not path.exists():
        if run.poll() is not None:
            break  # it finished before the check
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.02)


def _train_and_interrupt(settings: TrainingSettings, output: Path, after: int) -> None:
    """Sends Ctrl-C to this very process once `after` steps are in the log."""
    import linda.training.runstate

    write = linda.training.runstate.TrainingLog.write

    def write_and_interrupt(log: linda.training.runstate.TrainingLog, figures: dict[str, Any]) -> None:
        write(log, figures)
        if figures["step"] == after and "loss" in figures:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linda.training.runstate.TrainingLog, "write", write_and_interrupt)
        train(settings, output)
