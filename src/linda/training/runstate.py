"""The files of a training run: settings, log and checkpoints. They are written atomically, and without pickle."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from linda.errors import LindaError, reason
from linda.files.jsonfile import read_json_object
from linda.files.paths import check_regular_file, checked_path
from linda.files.textio import atomic_writer, writing
from linda.model import LindaModel
from linda.training.settings import TrainingSettings

LOG_FILE = "log.jsonl"
_KEPT = 2  # number of checkpoints to keep


class RunFolder:
    """`OUTPUT.training`, next to the model `OUTPUT` that the run will write."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.folder = output.with_name(output.name + ".training")
        self.settings_file = self.folder / "settings.json"

    def check(self, resume: bool) -> None:
        """Raise an error unless a run can start, or resume, here."""
        if checked_path(self.folder).exists() and not self.folder.is_dir():
            raise LindaError(f"{self.folder} already exists and is not the folder of a run; give another --output")
        has_files = self.folder.exists() and any(self.folder.iterdir())
        if resume and not self.last_step:
            remove = "remove the folder and " if has_files else ""
            raise LindaError(f"{self.folder} contains no checkpoint to resume from; {remove}run without --resume")
        if not resume and has_files:
            resume_it = "continue it with --resume, or " if self.last_step else ""
            raise LindaError(f"{self.folder} contains an earlier run; {resume_it}remove the folder")

    def begin(self, settings: TrainingSettings) -> None:
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        with atomic_writer(self.settings_file) as file:
            file.write(json.dumps(settings.by_name(), indent=2) + "\n")

    def remove_if_without_checkpoint(self) -> None:
        """Remove the folder of a run that failed before its first checkpoint."""
        if not self.last_step:
            for name in (self.settings_file.name, LOG_FILE):
                (self.folder / name).unlink(missing_ok=True)
            with suppress(OSError):  # not empty: it may contain TensorBoard files
                self.folder.rmdir()

    def settings(self) -> TrainingSettings:
        if not checked_path(self.settings_file).exists():
            raise LindaError(f"{self.folder} contains no run to resume; run without --resume")
        stored = read_json_object(self.settings_file)
        try:
            lists = {"corpus": tuple(stored["corpus"]), "middles": tuple(stored.get("middles", ()))}
            return TrainingSettings().changed(**stored | lists)
        except (KeyError, TypeError, LindaError) as error:
            raise LindaError(f"{self.settings_file} is damaged ({reason(error)}); start the run again") from error

    @property
    def last_step(self) -> int:
        """The step of the latest checkpoint; 0 if there is none."""
        return max((int(path.name.removeprefix("step-")) for path in self._checkpoints()), default=0)

    def _checkpoints(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("step-*") if re.fullmatch("[0-9]{1,18}", path.name[5:]))

    def _checkpoint(self, step: int) -> Path:
        return self.folder / f"step-{step:07d}"

    def save(self, model: LindaModel, optimizer: Any, step: int) -> None:
        from safetensors.torch import save_file

        part = self.folder / "saving.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        model.save_pretrained(part / "model")
        save_file(_named_moments(model, optimizer), part / "optimizer.safetensors")
        target = self._checkpoint(step)
        shutil.rmtree(target, ignore_errors=True)
        part.rename(target)
        for old in self._checkpoints()[:-_KEPT]:
            shutil.rmtree(old)

    def load_model(self) -> LindaModel:
        return LindaModel.from_pretrained(self._checkpoint(self.last_step) / "model")

    def load_optimizer(self, model: LindaModel, optimizer: torch.optim.Optimizer) -> None:
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        path = check_regular_file(self._checkpoint(self.last_step) / "optimizer.safetensors")
        try:
            moments = load_file(path)
            for name, parameter in _trained(model):
                if f"step.{name}" not in moments:  # the weight has had no gradient yet
                    continue
                state = {key: moments[f"{key}.{name}"] for key in ("step", "exp_avg", "exp_avg_sq")}
                if any(state[key].shape != parameter.shape for key in ("exp_avg", "exp_avg_sq")):
                    raise KeyError(name)
                optimizer.state[parameter] = state
        except (SafetensorError, OSError, KeyError) as error:
            raise LindaError(f"{path} is damaged ({reason(error)}); start the run again") from error

    def log(self, tensorboard: bool = False) -> TrainingLog:
        return TrainingLog(self.folder, self.last_step, tensorboard)


def resumed_settings(output: Path, steps: int | None) -> TrainingSettings:
    """Return the settings of an unfinished run; only the number of steps can be changed."""
    settings = RunFolder(output).settings()
    return settings if steps is None else settings.changed(steps=steps)


class TrainingLog:
    """`log.jsonl`: one JSON object with `step` per line. On resume, lines after the checkpoint are removed."""

    def __init__(self, folder: Path, last_step: int, tensorboard: bool = False) -> None:
        path = folder / LOG_FILE
        kept = []
        if path.exists():
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            kept = [line for line in lines if _step_of(line) <= last_step]
        with atomic_writer(path) as file:
            file.writelines(line + "\n" for line in kept)
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._board = _board(folder) if tensorboard else None

    def write(self, figures: dict[str, Any]) -> None:
        self._file.write(json.dumps(figures) + "\n")
        if self._board:
            flat = figures | figures.get("validation", {})
            for name, value in flat.items():
                if isinstance(value, int | float) and name != "step":
                    self._board.add_scalar(name, value, figures["step"])


def _board(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise LindaError("--tensorboard needs an extra: pip install 'linda[tensorboard]'") from error
    return SummaryWriter(folder / "tensorboard")


def _step_of(line: str) -> int:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return 2**63  # the last line of a killed run may be incomplete


def _trained(model: LindaModel) -> list[tuple[str, torch.nn.Parameter]]:
    return [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]


def _named_moments(model: LindaModel, optimizer: Any) -> dict[str, Tensor]:
    """Return the two moments of AdamW for every weight, by the name of the weight."""
    inner = getattr(optimizer, "optimizer", optimizer)  # without the wrapper of Accelerate
    return {
        f"{key}.{name}": value.contiguous().cpu()
        for name, parameter in _trained(model)
        for key, value in inner.state.get(parameter, {}).items()
    }
