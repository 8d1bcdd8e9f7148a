"""What `linda serve` bears: texts per second for 1, 8 and 32 clients against one offline batch, and a long mixed run.

    python benchmarks/serve.py                          # both; 10,000 requests in the long run
    python benchmarks/serve.py --soak 2000 --clients 32

The server is a process of its own on the loopback interface. Every client asks for one text between two short
questions, waits for it and asks again. Every answer is compared with the offline text. Of the requests of the long run
one in ten is bad. What is asked of it: at 32 clients at least 0.8 × the rate of offline batches of 32; no 5xx; memory
grows by at most 10 %. On a machine that others use too, look at texts per second of processor time.
"""

import asyncio
import itertools
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import Any

import click

LEAST_RATE, MOST_GROWTH = 0.8, 0.10

# 32 clients that ask for one text each can make no larger batch than this: it is what they are compared with.
BATCH = 32

Question = dict[str, Any]


@click.command()
@click.option("--clients", default="1,8,32", show_default=True, help="How many ask at a time, one run for each.")
@click.option("--requests", default=320, show_default=True, help="Of each of these runs.")
@click.option("--soak", default=10_000, show_default=True, help="Requests of the long run; 0: none.")
@click.option("--engine", default="auto", show_default=True)
def main(clients: str, requests: int, soak: int, engine: str) -> None:
    questions = make_questions(requests)
    interpolator = load(engine)
    texts, _, _ = offline_run(interpolator, questions, len(questions))
    _, offline, offline_cpu = offline_run(interpolator, questions, BATCH)
    failed = False
    with running_server(engine) as (process, address):
        click.echo("clients   texts/s  of offline  per CPU s  of offline   p50 ms   p99 ms   (offline: 32 in a call)")
        for count in map(int, clients.split(",")):
            asked = [Asked(question, text) for question, text in zip(questions, texts, strict=True)]
            some = asked[: max(16, requests if count > 1 else requests // 4)]
            cpu = cpu_seconds(process.pid)
            seconds, times, statuses = asyncio.run(ask_all(address, some, count))
            rate, cpu_rate = len(some) / seconds, len(some) / (cpu_seconds(process.pid) - cpu)
            p50, p99 = (1000 * quantiles(times, n=100)[place - 1] for place in (50, 99))
            click.echo(
                f"{count:>7}{rate:>10.1f}{rate / offline:>12.2f}{cpu_rate:>11.1f}{cpu_rate / offline_cpu:>12.2f}"
                f"{p50:>9.0f}{p99:>9.0f}"
            )
            failed |= statuses != {200: len(some)} or (count == 32 and rate < LEAST_RATE * offline)
        if soak:
            failed |= not long_run(process, address, questions, texts, soak)
    sys.exit(1 if failed else 0)


def make_questions(count: int) -> list[Question]:
    """Pairs of short questions and a ratio."""
    random = Random(0)
    places = ["France", "Tokyo", "the moon", "Brazil", "the old town", "Kenya", "New York", "the north", "Peru", "Rome"]
    forms = [
        "What is the capital of {}?",
        "How many people live in {}?",
        "Who was the first man in {}?",
        "When did the war in {} end?",
        "Why is it so cold in {}?",
        "Where can I find a river in {}?",
    ]
    every = [form.format(place) for form, place in itertools.product(forms, places)]
    return [
        dict(zip("ab", random.sample(every, 2), strict=True), alpha=round(random.random(), 2)) for _ in range(count)
    ]


def load(engine: str) -> Any:
    from linda import Interpolator

    interpolator = Interpolator.from_pretrained(engine=engine)
    interpolator.mix("The first texts of an engine", "take longer than the next.")
    threads = os.environ.get("OMP_NUM_THREADS", "all")
    click.echo(f"{os.cpu_count()} cores, OMP_NUM_THREADS {threads}, engine {interpolator.engine.name}")
    return interpolator


def offline_run(interpolator: Any, questions: list[Question], batch: int) -> tuple[list[str], float, float]:
    """The texts, texts per second, and texts per second of processor time; so many questions in each call."""
    texts: list[str] = []
    begun, cpu = time.perf_counter(), time.process_time()
    for start in range(0, len(questions), batch):
        part = questions[start : start + batch]
        texts += interpolator.mix(*([question[name] for question in part] for name in ("a", "b", "alpha")))
    rate, cpu_rate = len(texts) / (time.perf_counter() - begun), len(texts) / (time.process_time() - cpu)
    load = os.getloadavg()[0]
    click.echo(f"offline, {batch} in a call: {rate:.1f} texts/s, {cpu_rate:.1f} per processor second (load {load:.0f})")
    return texts, rate, cpu_rate


@contextmanager
def running_server(engine: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "linda", "serve", "--no-open", "--port", "0", "--engine", engine]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = re.search(r"http://[\d.]+:\d+", process.stderr.readline())
            if found is None:
                raise click.ClickException("the server did not start")
            yield process, found[0]
        finally:
            process.terminate()


# --- requests -------------------------------------------------------------------------------------------------


class Connection:
    """A kept connection. Plain sockets: the client must not cost more than the server."""

    def __init__(self, address: str) -> None:
        self.host = address.removeprefix("http://")
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: bytes, **headers: str) -> tuple[int, bytes]:
        if self._streams is None:
            name, port = self.host.split(":")
            self._streams = await asyncio.open_connection(name, int(port))
        reader, writer = self._streams
        lines = {"Host": self.host, "Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        writer.write(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"content-length: (\d+)", answer, re.IGNORECASE)
        content = await reader.readexactly(int(length[1])) if length else b""
        if "connection: close" in answer.lower() or "Content-Length" in headers:
            self.close()
        return int(answer.split()[1]), content

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


@dataclass(frozen=True)
class Asked:
    """A good request, and the text that must come."""

    question: Question
    text: str
    status = 200

    async def send(self, connection: Connection) -> tuple[int, bytes]:
        return await connection.post("/v1/interpolate", json.dumps(self.question).encode())

    def check(self, answer: bytes) -> None:
        if json.loads(answer)["results"][0]["texts"] != [self.text]:
            raise click.ClickException(f"{self.question} gave {answer.decode()}, offline {self.text!r}")


@dataclass(frozen=True)
class Bad:
    """A request that must be refused."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    path: str = "/v1/interpolate"

    async def send(self, connection: Connection) -> tuple[int, bytes]:
        return await connection.post(self.path, self.body, **self.headers)

    def check(self, answer: bytes) -> None:
        if "error" not in json.loads(answer):
            raise click.ClickException(f"{self} was refused without words: {answer.decode()}")


def bad_requests() -> list[Bad]:
    pair = {"a": "One text.", "b": "Another text."}
    wrong: list[Any] = [
        {**pair, "alpha": 7},
        {**pair, "alpha": "half"},
        {**pair, "a": ""},
        {**pair, "a": "x" * 3000},
        {**pair, "beam": 4},
        {**pair, "alpha": [0.5] * 300},
        {"a": "alone"},
        ["no", "object"],
    ]
    good = json.dumps(pair).encode()
    return [
        *(Bad(422, json.dumps(body).encode()) for body in wrong),
        Bad(422, b"{"),
        Bad(413, b"{", {"Content-Length": str(3 * 2**20)}),
        Bad(403, good, {"Host": "evil.example"}),
        Bad(403, good, {"Origin": "https://evil.example"}),
        Bad(404, good, path="/v1/nothing"),
        Bad(422, b"text,label\nbroken", path="/v1/tables?name=a.csv"),
    ]


async def ask_all(
    address: str, requests: Sequence[Asked | Bad], clients: int
) -> tuple[float, list[float], Counter[int]]:
    """Seconds in all, seconds of each request, and how often each status came."""
    left = iter(requests)
    times: list[float] = []
    statuses: Counter[int] = Counter()

    async def one() -> None:
        connection = Connection(address)
        for request in left:
            begun = time.perf_counter()
            status, answer = await request.send(connection)
            times.append(time.perf_counter() - begun)
            statuses[status] += 1
            if status != request.status:
                raise click.ClickException(f"{request} gave {status}: {answer[:200]!r}")
            request.check(answer)
        connection.close()

    begun = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(clients)))
    return time.perf_counter() - begun, times, statuses


def long_run(
    process: subprocess.Popen[str], address: str, questions: list[Question], texts: list[str], count: int
) -> bool:
    """Whether memory stayed within bounds. Wrong texts and statuses end the program."""
    good = itertools.cycle(Asked(question, text) for question, text in zip(questions, texts, strict=True))
    bad = itertools.cycle(bad_requests())
    requests: list[Asked | Bad] = [next(bad) if number % 10 == 9 else next(good) for number in range(count)]
    warm = count // 10
    asyncio.run(ask_all(address, requests[:warm], 32))
    before = memory_mb(process.pid)
    seconds, _, statuses = asyncio.run(ask_all(address, requests[warm:], 32))
    after = memory_mb(process.pid)
    growth = after / before - 1
    shown = ", ".join(f"{status}: {number:,}" for status, number in sorted(statuses.items()))
    click.echo(f"{count:,} requests, every tenth bad, 32 clients; after the first {warm:,}, {seconds:.0f} s: {shown}")
    click.echo(f"memory {before:.0f} MB after the first {warm:,}, {after:.0f} MB at the end ({growth:+.1%})")
    return growth <= MOST_GROWTH and max(statuses) < 500


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far, of all its threads."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


if __name__ == "__main__":
    main()
