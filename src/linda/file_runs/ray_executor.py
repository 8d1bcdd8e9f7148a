"""The executor on a Ray cluster: each actor of a `ray_pool` writes parts into the folder of the run.

These are plain actors, not a Ray Data pipeline: Ray Data does not retry a Python exception, fails the job if a
constructor dies, and starts a new actor from arguments that may have been lost with a machine. In a Ray Data pipeline,
use the same class:

    blocks = ray.data.from_items([{"block": number} for number in range(40)])
    blocks.map_batches(BlockActor, fn_constructor_args=(folder, augmenter), batch_size=1, concurrency=4).materialize()
"""

import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from linda.augmentation import Augmenter
from linda.errors import LindaError
from linda.file_runs.block_pipeline import PartWriter
from linda.file_runs.parts import Manifest, PartsFolder
from linda.file_runs.preparation import check_processor
from linda.file_runs.ray_pool import RayPool, absolute_path, check_version, use_assigned_threads
from linda.methods.protection import is_file
from linda.planning.plan import Plan


class BlockActor:
    """Writes parts of a run that has been prepared. The model is loaded by the first block.

    Args:
        folder: Path or URL of the run.
        augmenter: The settings.
        plan: A plan for the whole table, if there is one.
    """

    def __init__(self, folder: str, augmenter: Augmenter, plan: Plan | None = None) -> None:
        self._name, self._augmenter, self._plan = folder, Augmenter(augmenter.settings, workers=1, progress=False), plan

    def __call__(self, batch: dict[str, Iterable[int]]) -> dict[str, Any]:
        """Write the parts of a batch of block numbers: a function for `ray.data.Dataset.map_batches`."""
        for number in batch["block"]:
            self.compute(int(number))
        return dict(batch)

    def ready(self) -> None:
        """Return when the actor has started."""

    def compute(self, number: int) -> None:
        """Write the part of a block."""
        self._write_part(number)

    @cached_property
    def _write_part(self) -> PartWriter:
        use_assigned_threads()
        folder = PartsFolder(self._name)
        manifest = folder.manifest()
        if manifest is None:
            host = socket.gethostname()
            raise LindaError(f"the worker on {host} finds no run in {folder}; give a folder that all machines share")
        check_version(manifest.run["linda"])
        check_processor(manifest.run)
        return PartWriter(folder, manifest, self._augmenter, self._plan, keep_journals=False)


@dataclass(frozen=True)
class RayExecutor:
    """Writes parts with actors on a Ray cluster.

    Example:
        augment_file(augmenter, "in.jsonl", "/shared/out/", executor=RayExecutor(RayPool.connect("auto")))
    """

    pool: RayPool

    def __call__(
        self, folder: PartsFolder, manifest: Manifest, augmenter: Augmenter, plan: Plan | None, numbers: Sequence[int]
    ) -> None:
        from tqdm import tqdm

        name = str(folder) if folder.storage.local is None else str(folder.storage.local.resolve())
        arguments = name, _for_other_machines(augmenter), plan
        hidden = None if augmenter.settings.progress else True  # None: shown on a terminal
        with tqdm(total=len(numbers), unit="block", desc="ray", disable=hidden) as bar:
            for _ in self.pool.completed(BlockActor, arguments, numbers, "block {}".format, "continue with --resume"):
                bar.update()


def _for_other_machines(augmenter: Augmenter) -> Augmenter:
    """Use absolute paths, and the engine that was selected, so that they are the same on all machines."""
    settings = augmenter.settings
    names = ("model", "teacher", "encoder", "unlabelled", "trigrams")
    places = {name: absolute_path(getattr(settings, name)) for name in names}
    given = [settings.protect] if isinstance(settings.protect, str) else settings.protect
    places["protect"] = [str(Path(text).resolve()) if is_file(text) else text for text in given]
    translate = settings.translate and tuple(map(absolute_path, settings.translate))
    return Augmenter(settings, **places, translate=translate, engine=settings.engine_name or settings.engine)
