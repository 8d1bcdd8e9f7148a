"""A real Ray cluster of three nodes on this machine: a head and two more raylets, with a CPU each."""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil


class RayCluster:
    """Nodes are child processes; `ray stop` is never called, since it would stop other clusters too."""

    def __init__(self, temporary: Path) -> None:
        self.address = f"127.0.0.1:{_free_port()}"
        self.nodes: list[subprocess.Popen[bytes]] = []
        self._temporary = temporary
        # Anyone who can connect to a cluster can run code on it, and Ray listens on all interfaces.
        self.environment = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}

    def start_head(self) -> None:
        port = self.address.split(":")[1]
        self._start("--head", "--port", port, "--temp-dir", str(self._temporary), "--include-dashboard=false")

    def start_node(self) -> None:
        self._start("--address", self.address)

    def _start(self, *arguments: str, seconds: float = 90) -> None:
        """Start a node and wait until it is registered: nodes that start at the same time may choose the same ports."""
        ray = Path(sys.executable).with_name("ray")
        small = ("--num-cpus", "1", "--num-gpus", "0", "--object-store-memory", str(80 * 2**20))
        command = [str(ray), "start", "--block", "--disable-usage-stats", *small, *arguments]
        # Workers must find the package and the test modules, wherever this Python finds them.
        environment = {**self.environment, "PYTHONPATH": os.pathsep.join(sys.path)}
        log = self._temporary / f"node-{len(self.nodes)}.txt"
        with log.open("wb") as output:
            self.nodes.append(subprocess.Popen(command, stdout=output, stderr=output, env=environment))
        end = time.monotonic() + seconds
        while "Ray runtime started" not in log.read_text():
            assert self.nodes[-1].poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)

    def raylet(self, node: "subprocess.Popen[bytes]") -> psutil.Process | None:
        children = psutil.Process(node.pid).children(recursive=True) if node.poll() is None else []
        return next((child for child in children if child.name() == "raylet"), None)

    def kill_raylet(self) -> None:
        """Send SIGKILL to the raylet of the node that was started last."""
        raylet = self.raylet(self.nodes[-1])
        assert raylet is not None
        raylet.kill()

    def stop(self) -> None:
        processes = [psutil.Process(node.pid) for node in self.nodes if node.poll() is None]
        processes += [child for process in processes for child in process.children(recursive=True)]
        for process in processes:
            process.kill()
        psutil.wait_procs(processes, timeout=30)
        for node in self.nodes:
            node.wait()


@contextmanager
def three_nodes() -> Iterator[RayCluster]:
    temporary = Path(tempfile.mkdtemp(prefix="ray-"))  # not pytest's: sockets must have short names
    cluster = RayCluster(temporary)
    try:
        cluster.start_head()
        cluster.start_node()
        cluster.start_node()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(temporary, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
