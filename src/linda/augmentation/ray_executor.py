"""The executor on a Ray cluster.

Ray only places the work. Each actor writes its parts itself, by rename, into the folder of the run, which all machines
must be able to read and write. So neither the order in which Ray returns results nor a block that is computed twice
affects the output.

These are plain actors, not a Ray Data pipeline: Ray Data does not retry a Python exception, fails the job if a
constructor dies, and starts a new actor from arguments that may have been lost with a machine. The same class works in
Ray Data as well, for those who have a pipeline there:

    blocks = ray.data.from_items([{"block": number} for number in range(40)])
    blocks.map_batches(BlockActor, fn_constructor_args=(folder, augmenter), batch_size=1, concurrency=4).materialize()
"""

import os
import socket
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from linda import __version__
from linda.augmentation.block_pipeline import PartWriter
from linda.augmentation.parts import Manifest, RunFolder
from linda.augmentation.pipeline import Augmenter
from linda.augmentation.plan import Plan
from linda.errors import LindaError
from linda.methods.protection import is_file

# How often a block, or an actor that does not start, is tried again.
_ATTEMPTS = 4
_CONNECT_SECONDS = 5
_NO_CLUSTER = "no Ray cluster at {!r}; give the address of its head as host:port, or start one with `ray start --head`"


class BlockActor:
    """Writes parts of a run that has been prepared. The model is loaded by the first block.

    Args:
        folder: Path or URL of the run.
        augmenter: The settings.
        plan: A plan for the whole table, if there is one.
    """

    def __init__(self, folder: str, augmenter: Augmenter, plan: Plan | None = None) -> None:
        self._name, self._augmenter, self._plan = folder, replace(augmenter, workers=1, progress=False), plan

    def __call__(self, batch: dict[str, Iterable[int]]) -> dict[str, Any]:
        """Write the parts of a batch of block numbers: a function for `ray.data.Dataset.map_batches`."""
        for number in batch["block"]:
            self.write_part(int(number))
        return dict(batch)

    def ready(self) -> None:
        """Returns when the actor has started."""

    def write_part(self, number: int) -> None:
        self._write_part(number)

    @cached_property
    def _write_part(self) -> PartWriter:
        folder = RunFolder(self._name)
        manifest = folder.manifest()
        host = socket.gethostname()
        if manifest is None:
            raise LindaError(f"the worker on {host} finds no run in {folder}; give a folder that all machines share")
        if manifest.run["linda"] != __version__:
            raise LindaError(
                f"the worker on {host} has linda {__version__}, this run {manifest.run['linda']}; "
                "install the same version on all machines"
            )
        return PartWriter(folder, manifest, self._augmenter, self._plan, keep_journals=False)


@dataclass(frozen=True)
class RayExecutor:
    """Writes parts with actors on a Ray cluster. See `connect`."""

    workers: int
    gpus_per_worker: float = 0

    @classmethod
    def connect(
        cls, address: str | None = None, workers: int | None = None, gpus_per_worker: float = 0
    ) -> "RayExecutor":
        """Connect to a Ray cluster.

        Args:
            address: `host:port`, or `auto` for the cluster of this machine; None for the value of
                RAY_ADDRESS, or a new Ray on this machine.
            workers: Number of actors, with one CPU each. By default as many as the cluster has room for.
            gpus_per_worker: GPUs of each actor.

        Returns:
            The executor.

        Example:
            augment_file(augmenter, "in.jsonl", "/shared/out/", executor=RayExecutor.connect("auto"))
        """
        try:
            import ray
        except ImportError:
            raise LindaError("--on ray needs Ray: pip install 'linda[ray]'") from None
        if not ray.is_initialized():
            _connect(address or os.environ.get("RAY_ADDRESS"))
        found = ray.cluster_resources()
        room = int(found.get("CPU", 0))
        if gpus_per_worker:
            room = min(room, int(found.get("GPU", 0) / gpus_per_worker))
        if not room:
            raise LindaError(
                f"the Ray cluster has {found.get('CPU', 0):g} CPUs and {found.get('GPU', 0):g} GPUs; "
                f"a worker needs 1 CPU and {gpus_per_worker:g} GPUs (--gpus-per-worker)"
            )
        return cls(min(workers or room, room), gpus_per_worker)

    def __call__(
        self, folder: RunFolder, manifest: Manifest, augmenter: Augmenter, plan: Plan | None, numbers: Sequence[int]
    ) -> None:
        from tqdm import tqdm

        name = str(folder) if folder.storage.local is None else str(folder.storage.local.resolve())
        pool = _Pool(
            (name, _for_other_machines(augmenter), plan), min(self.workers, len(numbers)), self.gpus_per_worker
        )
        hidden = None if augmenter.progress else True  # None: shown on a terminal
        with pool, tqdm(total=len(numbers), unit="block", desc="ray", disable=hidden) as bar:
            for _ in pool.completed(numbers):
                bar.update()


class _Pool:
    """Actors that are given one block at a time. A dead actor is replaced, and its block is given to another."""

    def __init__(self, arguments: tuple[Any, ...], size: int, gpus: float) -> None:
        import ray

        self._actor_class = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=0)(BlockActor)
        self._arguments = arguments
        self._failures: Counter[int | None] = Counter()  # by block; None: actors that did not start
        self._running: dict[Any, tuple[Any, int | None]] = {}  # task → actor, block; no block: it starts
        self._idle: list[Any] = []
        for _ in range(size):
            self._start_actor()

    def __enter__(self) -> "_Pool":
        return self

    def __exit__(self, *error: object) -> None:
        import ray

        for actor in [*self._idle, *(actor for actor, _ in self._running.values())]:
            with suppress(Exception):  # it may be dead
                ray.kill(actor)

    def completed(self, numbers: Sequence[int]) -> Iterable[int]:
        """Have these parts written, and return each when it is."""
        import ray

        waiting, missing = deque(numbers), len(numbers)
        while missing:
            # An actor that has not started gets no block: there may be no room for it.
            while self._idle and waiting:
                actor, number = self._idle.pop(), waiting.popleft()
                self._running[actor.write_part.remote(number)] = actor, number
            for task in ray.wait(list(self._running), num_returns=1)[0]:
                actor, done = self._running.pop(task)
                try:
                    ray.get(task)
                except ray.exceptions.RayError as error:
                    self._count_failure(done, error)
                    if isinstance(error, ray.exceptions.RayTaskError):
                        self._idle.append(actor)
                    else:  # the actor or its machine died
                        self._start_actor()
                    if done is not None:
                        waiting.append(done)
                    continue
                self._idle.append(actor)
                if done is not None:
                    missing -= 1
                    yield done

    def _start_actor(self) -> None:
        actor: Any = self._actor_class.remote(*self._arguments)
        self._running[actor.ready.remote()] = actor, None

    def _count_failure(self, number: int | None, error: Exception) -> None:
        cause = getattr(error, "cause", None)
        if isinstance(cause, LindaError):
            raise LindaError(str(cause)) from error
        self._failures[number] += 1
        if self._failures[number] >= _ATTEMPTS:
            what = "a Ray actor does not start" if number is None else f"block {number} failed {_ATTEMPTS} times"
            reason = str(cause or error).strip().splitlines()[-1:] or [type(error).__name__]
            raise LindaError(f"{what} ({reason[0]}); see the logs of Ray, then continue with --resume") from error


def _connect(address: str | None) -> None:
    import ray

    quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    if address is None or address == "local":
        ray.init(address=address, include_dashboard=False, **quiet)
        return
    try:
        if address != "auto":  # Ray itself would wait for minutes
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise LindaError(_NO_CLUSTER.format(address)) from error
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        if address == "auto":
            raise LindaError(_NO_CLUSTER.format(address)) from error
        raise LindaError(
            f"cannot connect to Ray at {address!r}; check that it is a Ray cluster of the same version, and give its "
            "token, if it has one, in RAY_AUTH_TOKEN (with RAY_AUTH_MODE=token)"
        ) from error


def _for_other_machines(augmenter: Augmenter) -> Augmenter:
    """Folders and files by their full names, and the engine by its name, so that they are the same everywhere."""
    places = {name: _full_name(getattr(augmenter, name)) for name in ("model", "teacher", "encoder")}
    for name in ("unlabelled", "trigrams"):
        if isinstance(getattr(augmenter, name), str | Path):
            places[name] = str(Path(getattr(augmenter, name)).resolve())
    given = [augmenter.protect] if isinstance(augmenter.protect, str) else augmenter.protect
    places["protect"] = [str(Path(text).resolve()) if is_file(text) else text for text in given]
    translate = augmenter.translate and tuple(map(_full_name, augmenter.translate))
    engine = augmenter.engine if augmenter.engine_name is None else augmenter.engine_name
    return replace(augmenter, **places, translate=translate, engine=engine)


def _full_name(model: Any) -> Any:
    is_folder = isinstance(model, str | Path) and Path(model).is_dir()
    return str(Path(model).resolve()) if is_folder else model
