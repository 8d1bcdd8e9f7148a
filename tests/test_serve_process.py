"""`linda serve` as a process: start and shutdown."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from linda.cli import main
from serving import HOTEL, ROOM


@contextmanager
def process(scratch: Path, *options: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server whose temporary files are in `scratch`, and its address."""
    command = [sys.executable, "-m", "linda", "serve", "--no-open", "--port", "0", *options]
    env = {**os.environ, "TMPDIR": str(scratch), **environment}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as server:
        try:
            assert server.stderr is not None
            line = server.stderr.readline()
            address = re.search(r"http://[\d.]+:\d+/", line)
            assert address, line
            yield server, address[0]
        finally:
            server.kill()


def drop_an_upload(address: str) -> None:
    """Announce a table, send a part of it, and close the connection."""
    url = httpx.URL(address)
    with socket.create_connection((url.host, url.port or 80)) as connection:
        head = f"POST /v1/tables?name=a.csv HTTP/1.1\r\nHost: {url.host}:{url.port}\r\nContent-Length: 1000\r\n\r\n"
        connection.sendall(head.encode() + b"text,label\n")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGTERM")
def test_sigterm_finishes_running_requests_and_leaves_no_files(tmp_path: Path) -> None:
    with process(tmp_path) as (server, address), httpx.Client(base_url=address, timeout=60) as client:
        drop_an_upload(address)
        table = "text,label\n" + "".join(f"Text {number} of a table.,x\n" for number in range(500))
        uploaded = client.post("/v1/tables?name=a.csv", content=table).json()["id"]
        assert client.post(f"/v1/tables/{uploaded}/jobs", json={}).status_code == 202
        assert list(tmp_path.glob("linda-serve-*"))
        question = {"a": HOTEL, "b": ROOM, "alpha": [step / 20 for step in range(21)], "stream": True}
        with client.stream("POST", "/v1/interpolate", json=question) as answer:
            server.send_signal(signal.SIGTERM)
            events = re.findall(r"^event: (\w+)$", "".join(answer.iter_text()), re.MULTILINE)
        assert events == ["result"] * 21 + ["done"]
        server.wait(timeout=30)
        assert server.stderr is not None
        assert "Traceback" not in server.stderr.read()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("linda.example.org", "--allow-host linda.example.org is open to other machines; give a token too"),
        ("https://linda.example.org", "--allow-host 'https://linda.example.org' is not a host name; give it alone"),
        ("linda.example.org:443", "--allow-host 'linda.example.org:443' is not a host name"),
        ("", "--allow-host '' is not a host name"),
    ],
)
def test_a_public_name_is_checked(name: str, words: str) -> None:
    told = CliRunner(env={"LINDA_TOKEN": None}).invoke(main, ["serve", "--no-open", "--allow-host", name])
    assert told.exit_code == 2
    assert told.stderr.startswith(f"linda: {words}")


def test_another_host_needs_a_token() -> None:
    told = CliRunner(env={"LINDA_TOKEN": None}).invoke(main, ["serve", "--no-open", "--host", "0.0.0.0"])
    assert told.exit_code == 2
    assert told.stderr == (
        "linda: --host 0.0.0.0 is open to other machines; give a token too (--token, or LINDA_TOKEN)\n"
    )


def test_a_short_token_is_refused() -> None:
    told = CliRunner().invoke(main, ["serve", "--no-open", "--token", "1234"])
    assert told.exit_code == 2
    assert "4 characters; give at least 16" in told.stderr


def test_another_host_with_a_token(tmp_path: Path) -> None:
    with process(tmp_path, "--host", "0.0.0.0", LINDA_TOKEN="a token of 16 or more") as (_, address):
        assert httpx.get(f"{address}v1/info").status_code == 401
        right = {"Authorization": "Bearer a token of 16 or more"}
        assert httpx.get(f"{address}v1/info", headers=right).status_code == 200


def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = CliRunner().invoke(main, ["serve", "--no-open", "--port", str(port)])
    assert told.exit_code == 2
    assert told.stderr.startswith(f"linda: cannot listen on 127.0.0.1 port {port}: address already in use")


def test_a_model_that_is_none_is_told(tmp_path: Path) -> None:
    told = CliRunner().invoke(main, ["serve", "--no-open", "--port", "0", "--model", str(tmp_path)])
    assert told.exit_code == 2
    assert str(tmp_path) in told.stderr


def test_without_the_extra_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("linda.web", "uvicorn"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    told = CliRunner().invoke(main, ["serve", "--no-open"])
    assert told.exit_code == 2
    assert told.stderr == "linda: linda serve needs uvicorn: pip install 'linda[web]'\n"


def test_everything_of_the_page_is_package_data() -> None:
    import tomllib

    root = Path(__file__).parents[1]
    patterns = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["linda"]
    package = root / "src" / "linda"
    packed = {file for pattern in patterns for file in package.glob(pattern)}
    files = {file for file in (package / "web" / "static").rglob("*") if file.is_file()}
    assert files
    assert files <= packed
