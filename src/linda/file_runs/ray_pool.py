"""Actors on a Ray cluster that are given one piece of work at a time, for `linda augment` and `linda bench`.

Ray only places the work: an actor writes its results itself, by rename, to a folder that all machines share. So neither
the order in which Ray returns results nor a piece that is computed twice affects the outcome.
"""

import os
import socket
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from linda import __version__
from linda.errors import LindaError

_ATTEMPTS = 4  # at a piece of work, or in a row at starting actors
_CONNECT_SECONDS = 5
_NO_CLUSTER = "no Ray cluster at {!r}; give the address of its head as host:port, or start one with `ray start --head`"


class Worker(Protocol):
    """What an actor does. Its class and arguments are sent to other machines."""

    def ready(self) -> None:
        """Return when the actor has started."""

    def compute(self, item: Any) -> Any:
        """Do one piece of work."""


def check_version(version: str) -> None:
    """Raise a `LindaError` unless this machine has the version of linda that started the run."""
    if version != __version__:
        raise LindaError(
            f"the worker on {socket.gethostname()} has linda {__version__}, this run {version}; "
            "install the same version on all machines"
        )


def use_assigned_threads() -> None:
    """Compute on as many threads as Ray has given CPUs to this actor, whatever OMP_NUM_THREADS is on its machine."""
    import ray

    if not ray.is_initialized() or ray.get_runtime_context().get_actor_id() is None:
        return
    count = max(1, int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1)))
    os.environ["OMP_NUM_THREADS"] = str(count)  # torch reads it when it is imported
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(count)


def absolute_path(place: Any) -> Any:
    """Return the absolute path of a file or folder that exists. Other names, and objects, are returned unchanged."""
    return str(Path(place).resolve()) if isinstance(place, str | Path) and Path(place).exists() else place


@dataclass(frozen=True)
class RayPool:
    """Resources for actors on a Ray cluster, with one CPU each. See `connect`."""

    workers: int
    gpus_per_worker: float = 0

    @classmethod
    def connect(cls, address: str | None = None, workers: int | None = None, gpus_per_worker: float = 0) -> "RayPool":
        """Connect to a Ray cluster.

        Args:
            address: `host:port`, or `auto` for the cluster of this machine; None for the value of
                RAY_ADDRESS, or a new Ray on this machine.
            workers: Number of actors, with one CPU each. By default as many as the cluster has room for.
            gpus_per_worker: GPUs of each actor.

        Returns:
            The pool. Actors are started by `completed`.

        Example:
            pool = RayPool.connect("auto", workers=4)
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

    def completed(
        self,
        worker: Callable[..., Worker],
        arguments: tuple[Any, ...],
        items: Sequence[Any],
        describe: Callable[[Any], str] = str,
        how_to_continue: str = "repeat the command",
    ) -> Iterator[Any]:
        """Compute pieces of work, and yield each result when it is ready, in any order.

        Args:
            worker: The class of the actors.
            arguments: The arguments of its constructor.
            items: The pieces of work.
            describe: Names a piece in messages.
            how_to_continue: What the user should do after an error.

        Returns:
            The results. A piece whose actor or machine dies is given to another actor.

        Example:
            for result in pool.completed(CellWorker, (settings, folder), cells, lambda cell: cell.file_name):
                ...
        """
        with _Actors(worker, arguments, self.gpus_per_worker, describe, how_to_continue) as actors:
            yield from actors.completed(items, min(self.workers, len(items)))


@dataclass
class _Actors:
    """Actors that are given one piece of work at a time. A dead actor is replaced, its work given to another."""

    worker: Callable[..., Worker]
    arguments: tuple[Any, ...]
    gpus: float
    describe: Callable[[Any], str]
    how_to_continue: str
    _failures: Counter[str | None] = field(default_factory=Counter)  # by piece; None: actors that did not start
    _running: dict[Any, tuple[Any, list[Any]]] = field(default_factory=dict)  # task → actor, its piece, if not starting
    _idle: list[Any] = field(default_factory=list)

    def __enter__(self) -> "_Actors":
        return self

    def __exit__(self, *error: object) -> None:
        import ray

        for actor in [*self._idle, *(actor for actor, _ in self._running.values())]:
            with suppress(Exception):  # it may be dead
                ray.kill(actor)

    def completed(self, items: Sequence[Any], count: int) -> Iterator[Any]:
        """Yield the results of `count` actors."""
        import ray

        for _ in range(count):
            self._start_actor()
        waiting, missing = deque(items), len(items)
        while missing:
            # An actor that has not started gets no work: there may be no room for it.
            while self._idle and waiting:
                actor, item = self._idle.pop(), waiting.popleft()
                self._running[actor.compute.remote(item)] = actor, [item]
            for task in ray.wait(list(self._running), num_returns=1)[0]:
                actor, done = self._running.pop(task)
                try:
                    result = ray.get(task)
                except ray.exceptions.RayError as error:
                    self._count_failure(self.describe(done[0]) if done else None, error)
                    if isinstance(error, ray.exceptions.RayTaskError):
                        self._idle.append(actor)
                    else:  # the actor or its machine died
                        self._start_actor()
                    waiting.extend(done)
                    continue
                self._idle.append(actor)
                if done:
                    missing -= 1
                    yield result
                else:
                    self._failures[None] = 0  # an actor started, and only failures in a row count

    @cached_property
    def _actor_class(self) -> Any:
        import ray

        return ray.remote(num_cpus=1, num_gpus=self.gpus, max_restarts=0)(self.worker)

    def _start_actor(self) -> None:
        actor = self._actor_class.remote(*self.arguments)
        self._running[actor.ready.remote()] = actor, []

    def _count_failure(self, name: str | None, error: Exception) -> None:
        cause = getattr(error, "cause", None)
        if isinstance(cause, LindaError):
            raise LindaError(str(cause)) from error
        self._failures[name] += 1
        if self._failures[name] >= _ATTEMPTS:
            what = "a Ray actor does not start" if name is None else f"{name} failed {_ATTEMPTS} times"
            reason = str(cause or error).strip().splitlines()[-1:] or [type(error).__name__]
            raise LindaError(f"{what} ({reason[0]}); see the logs of Ray, then {self.how_to_continue}") from error


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Hide what Ray writes to standard error: a warning for every attempt to connect, before the error is raised."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with Path(os.devnull).open("wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


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
        with _without_warnings():
            ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        if address == "auto":
            raise LindaError(_NO_CLUSTER.format(address)) from error
        raise LindaError(
            f"cannot connect to Ray at {address!r}; check that it is a Ray cluster of the same version, and give its "
            "token, if it has one, in RAY_AUTH_TOKEN (with RAY_AUTH_MODE=token)"
        ) from error
