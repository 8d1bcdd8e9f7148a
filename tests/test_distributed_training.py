"""Training by two processes: `torchrun`, and `accelerate launch` with a process that is killed."""

import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from linda.model import LindaModel
from linda.training import TrainingSettings
from test_training import _losses, _options, _wait_for, small_settings, train, write_corpus


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory, tiny_base_folder: Path) -> TrainingSettings:
    corpus = write_corpus(tmp_path_factory.mktemp("corpus"))
    return small_settings(corpus, tiny_base_folder).changed(steps=12)


@pytest.fixture(scope="module")
def whole(settings: TrainingSettings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that two processes under torchrun trained, never stopped."""
    output = tmp_path_factory.mktemp("whole") / "model"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launcher, "-m", "linda", "train", *_options(settings, output)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    return output


def test_two_processes_train_one_model(settings: TrainingSettings, whole: Path, tmp_path: Path) -> None:
    """The same command under torchrun: pairs are divided, and the processes end with the same model."""
    assert sorted(_losses(whole)) == list(range(1, settings.steps + 1))
    train(settings, tmp_path / "alone")
    assert _losses(tmp_path / "alone") != _losses(whole)  # one process alone sees other pairs
    LindaModel.from_pretrained(whole)


def launcher() -> list[str]:
    """Two processes on this machine. On several machines, each has --machine_rank and --main_process_ip as well."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # --multi_gpu selects the launcher for several processes; where there is no GPU they compute on the CPU.
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu"]
    several = ["--num_machines", "1", "--num_processes", "2", "--main_process_port", str(port)]
    return [*launch, *several, "--mixed_precision", "no", "--dynamo_backend", "no", "-m", "linda"]


def start(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([*launcher(), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def processes_of_training(run: "subprocess.Popen[str]") -> list[psutil.Process]:
    children = psutil.Process(run.pid).children(recursive=True)
    return [child for child in children if "train" in child.cmdline() and "RANK" in child.environ()]


def test_a_killed_process_is_made_good_by_resuming(settings: TrainingSettings, whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    run = start("train", *_options(settings, folder))
    _wait_for(folder.with_name("killed.training") / "step-0000003", run)
    ranks = {process.environ()["RANK"]: process for process in processes_of_training(run)}
    assert sorted(ranks) == ["0", "1"]
    ranks["1"].kill()
    assert run.wait(120) != 0  # the launcher stops the others
    assert len(_losses(folder)) < settings.steps
    run = start("train", "--resume", "--output", str(folder))
    assert run.wait(180) == 0, run.communicate()[1][-2000:]
    assert _losses(folder) == pytest.approx(_losses(whole), rel=1e-4)
    LindaModel.from_pretrained(folder)
