"""Load test of `linda serve`: texts per second for 1, 8 and 32 clients, and a long run with bad requests.

    python benchmarks/serve.py                          # 10,000 requests in the long run, 1,000 of them bad
    python benchmarks/serve.py --soak 500 --clients 32

The server is a separate process on the loopback interface. Every client requests one text between two short questions,
waits for it and sends the next request. Every response is compared with the offline text.

The offline rate is that of one call of `Interpolator.mix` with all these pairs. 32 clients that wait for one text each
cannot fill a larger batch than 32, so the rate of offline calls of that size is shown too. On a busy machine, look at
texts per second of processor time.

Fails unless 32 clients reach 0.8 × the rate of one offline call, every response to a good request is the offline text,
there is no 5xx, and memory grows by at most 10 %.
"""

import asyncio
import itertools
import json
import math
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

BATCH = 32  # texts in the smaller offline calls

Question = dict[str, Any]


@click.command()
@click.option("--clients", default="1,8,32", show_default=True, help="Numbers of concurrent clients; one run each.")
@click.option("--requests", default=320, show_default=True, help="Requests in each of these runs.")
@click.option("--soak", default=10_000, show_default=True, help="Requests of the long run; 0: none.")
@click.option("--engine", default="auto", show_default=True)
def main(clients: str, requests: int, soak: int, engine: str) -> None:
    questions = make_questions(requests)
    interpolator = load(engine)
    offline_run(interpolator, questions, BATCH)
    texts, offline = offline_run(interpolator, questions, len(questions))
    asked = [Asked(question, text) for question, text in zip(questions, texts, strict=True)]
    failed = False
    with running_server(engine) as (process, address):
        click.echo(f"\n{'':<18} texts/s  of offline  per CPU s  of offline   p50 ms   p99 ms   (offline: one call)")
        for count in map(int, clients.split(",")):
            some = asked[: max(16, requests if count > 1 else requests // 4)]
            found = ask_all(process, address, some, count)
            click.echo(f"{count:>2} clients        {found.compared(offline)}")
            failed |= found.has_errors or (count == 32 and found.rate.per_second < LEAST_RATE * offline.per_second)
        if soak:
            failed |= not long_run(process, address, asked, soak, offline)
    sys.exit(1 if failed else 0)


def make_questions(count: int) -> list[Question]:
    """Make pairs of short questions, each with a ratio. Of 1,200 different questions, few are in several pairs."""
    random = Random(0)
    places = ["France", "Tokyo", "the moon", "Brazil", "the old town", "Kenya", "New York", "the north", "Peru", "Rome"]
    things = "river city school market museum library garden bridge station church tower island harbour forest castle"
    forms = [
        "What is the name of the {} in {}?",
        "How many people go to the {} in {}?",
        "Who was the first man at the {} in {}?",
        "When did they close the {} in {}?",
        "Why is the {} so cold in {}?",
        "Where can I find a {} in {}?",
        "Which {} is the best in {}?",
        "Can you show me a {} in {}?",
    ]
    every = [form.format(thing, place) for form, thing, place in itertools.product(forms, things.split(), places)]
    return [
        dict(zip("ab", random.sample(every, 2), strict=True), alpha=round(random.random(), 2)) for _ in range(count)
    ]


@dataclass(frozen=True)
class Rate:
    """Texts per second, and per second of processor time."""

    per_second: float
    per_cpu_second: float


def load(engine: str) -> Any:
    from linda import Interpolator

    interpolator = Interpolator.from_pretrained(engine=engine)
    interpolator.mix("The first texts of an engine", "take longer than the next.")
    threads = os.environ.get("OMP_NUM_THREADS", "all")
    click.echo(f"{os.cpu_count()} cores, OMP_NUM_THREADS {threads}, engine {interpolator.engine.name}")
    return interpolator


def offline_run(interpolator: Any, questions: list[Question], batch: int) -> tuple[list[str], Rate]:
    """Return the texts and their rate, with `batch` questions in each call."""
    texts: list[str] = []
    begun, cpu = time.perf_counter(), time.process_time()
    for start in range(0, len(questions), batch):
        part = questions[start : start + batch]
        texts += interpolator.mix(*([question[name] for question in part] for name in ("a", "b", "alpha")))
    rate = Rate(len(texts) / (time.perf_counter() - begun), len(texts) / (time.process_time() - cpu))
    click.echo(
        f"offline, calls of {batch}: {rate.per_second:.1f} texts/s, {rate.per_cpu_second:.1f} per processor second "
        f"(load {os.getloadavg()[0]:.0f})"
    )
    return texts, rate


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
    """A persistent connection over a plain socket, because the client must not cost more than the server."""

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
    """A good request, and the expected text."""

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
            raise click.ClickException(f"{self} was refused without an error message: {answer.decode()}")


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
    table = {"text": ["One text.", "Another text."], "label": ["x", "x"]}
    more: list[dict[str, Any]] = [
        {"id": [math.nan, 1]},
        {"id": [math.inf, 1]},
        {"id": ["\ud800", ""]},
        {"\ud800": [0, 1]},
    ]
    cell = {**dict.fromkeys(("task", "protocol", "method", "source", "date", "machine"), ""), "seed": 0, "notes": []}
    cell |= {"settings": {"on": "test"}, "policy": None, "domain": None, "shots": None, "train_size": None}
    cell |= {"rows": 0, "new_rows": 0, "updates": None, "seconds": {}, "test_rows": {"test": 1}}
    return [
        *(Bad(422, json.dumps(body).encode()) for body in wrong),
        Bad(422, b"{"),
        Bad(413, b"{", {"Content-Length": str(3 * 2**20)}),
        Bad(403, good, {"Host": "evil.example"}),
        Bad(403, good, {"Origin": "https://evil.example"}),
        Bad(404, good, path="/v1/nothing"),
        Bad(422, b"text,label\nbroken", path="/v1/tables?name=a.csv"),
        *(Bad(422, json.dumps({"data": {**table, **column}}).encode(), path="/v1/augment") for column in more),
        *(
            Bad(422, json.dumps({"cells": [{**cell, "scores": {"test": score}}]}).encode(), path="/v1/bench")
            for score in (None, 10**400)
        ),
    ]


@dataclass
class Answers:
    """The responses to a series of requests."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0  # of the server
    times: list[float] = field(default_factory=list)  # seconds of each good request
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)  # messages about unexpected responses

    @property
    def has_errors(self) -> bool:
        return bool(self.wrong)

    @property
    def rate(self) -> Rate:
        return Rate(len(self.times) / self.seconds, len(self.times) / self.cpu_seconds)

    def compared(self, offline: Rate) -> str:
        rate = self.rate
        p50, p99 = (1000 * quantiles(self.times, n=100)[place - 1] for place in (50, 99))
        return (
            f"{rate.per_second:>8.1f}{rate.per_second / offline.per_second:>12.2f}{rate.per_cpu_second:>11.1f}"
            f"{rate.per_cpu_second / offline.per_cpu_second:>12.2f}{p50:>9.0f}{p99:>9.0f}"
        )


def ask_all(process: subprocess.Popen[str], address: str, requests: Sequence[Asked | Bad], clients: int) -> Answers:
    answers = Answers()
    left = iter(requests)

    async def one() -> None:
        connection = Connection(address)
        for request in left:
            begun = time.perf_counter()
            status, answer = await request.send(connection)
            if isinstance(request, Asked):
                answers.times.append(time.perf_counter() - begun)
            answers.statuses[status] += 1
            try:
                if status != request.status:
                    raise click.ClickException(f"{request} gave {status}: {answer[:200]!r}")
                request.check(answer)
            except click.ClickException as error:
                answers.wrong.append(error.message)
        connection.close()

    async def everyone() -> None:
        await asyncio.gather(*(one() for _ in range(clients)))

    begun, cpu = time.perf_counter(), cpu_seconds(process.pid)
    asyncio.run(everyone())
    answers.seconds, answers.cpu_seconds = time.perf_counter() - begun, cpu_seconds(process.pid) - cpu
    for message in answers.wrong[:3]:
        click.echo(f"wrong: {message}")
    return answers


def long_run(process: subprocess.Popen[str], address: str, asked: list[Asked], count: int, offline: Rate) -> bool:
    """Whether every answer was right and memory stayed within bounds. Memory is first measured after a tenth."""
    good, bad = itertools.cycle(asked), itertools.cycle(bad_requests())
    requests: list[Asked | Bad] = [next(bad) if number % 10 == 9 else next(good) for number in range(count)]
    warm = count // 10
    first = ask_all(process, address, requests[:warm], 32)
    before = memory_mb(process.pid)
    rest = ask_all(process, address, requests[warm:], 32)
    after = memory_mb(process.pid)
    statuses = first.statuses + rest.statuses
    shown = ", ".join(f"{status}: {number:,}" for status, number in sorted(statuses.items()))
    failures = sum(number for status, number in statuses.items() if status >= 500)
    wrong = len(first.wrong) + len(rest.wrong)
    click.echo(f"long run, 32 cl.  {rest.compared(offline)}")
    click.echo(
        f"{count:,} requests, {count // 10:,} of them bad, {first.seconds + rest.seconds:.0f} s; by status {shown}"
    )
    click.echo(f"5xx: {failures}; answers that differ from the offline text or the expected status: {wrong}")
    click.echo(
        f"memory: {before:.0f} MB after {warm:,} requests, {after:.0f} MB at the end ({after / before - 1:+.1%})"
    )
    return not wrong and not failures and after / before - 1 <= MOST_GROWTH


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process so far, of all its threads."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


if __name__ == "__main__":
    main()
