"""A server in this process, on a free port of the loopback interface, over the embedded model."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn

from linda.web.guard import HostRule
from linda.web.interpolation import ScoredInterpolator
from linda.web.server import listening, make_app

HOTEL = "The hotel was clean and the staff were friendly."
ROOM = "The room was small and the food was cold."


@dataclass(frozen=True)
class Serving:
    """The address of a server, and a client for it."""

    address: str
    client: httpx.Client

    def interpolate(self, a: Any = HOTEL, b: Any = ROOM, **settings: Any) -> httpx.Response:
        return self.client.post("/v1/interpolate", json={"a": a, "b": b, **settings})

    def upload(self, name: str, body: bytes | str) -> httpx.Response:
        return self.client.post("/v1/tables", params={"name": name}, content=body)

    def finished(self, job_id: str, seconds: float = 60) -> dict[str, Any]:
        """Return the job when it is finished."""
        for _ in range(int(seconds / 0.05)):
            job: dict[str, Any] = self.client.get(f"/v1/jobs/{job_id}").json()
            if job["state"] not in ("waiting", "running"):
                return job
            time.sleep(0.05)
        raise TimeoutError(job)


@contextmanager
def serving(interpolator: ScoredInterpolator, allow_hosts: Sequence[str] = (), **options: Any) -> Iterator[Serving]:
    """Start a server; options are those of `linda.web.server.make_app`."""
    with listening("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        app = make_app(interpolator, HostRule.of("127.0.0.1", port, allow_hosts), **options)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on", proxy_headers=False))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        address = f"http://127.0.0.1:{port}"
        try:
            with httpx.Client(base_url=address, timeout=60) as client:
                client.get("/").raise_for_status()  # waits until it is ready
                yield Serving(address, client)
        finally:
            server.should_exit = True
            thread.join()
