"""Checks of every request (host, origin, token, size), and headers of every response."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from linda.web.guard import HostRule, is_loopback
from linda.web.interpolation import ScoredInterpolator
from linda.web.limits import Limits
from serving import HOTEL, ROOM, Serving, serving
from test_serve_bench import CELLS

TOKEN = "0123456789abcdef-token"
QUESTION = {"a": HOTEL, "b": ROOM}


def port_of(server: Serving) -> str:
    return server.address.rsplit(":", 1)[1]


# --- host and origin ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example:{port}", "127.0.0.1:1"]
)
@pytest.mark.parametrize("path", ["/", "/v1/info", "/static/js/main.js"])
def test_another_host_is_refused(server: Serving, host: str, path: str) -> None:
    answer = server.client.get(path, headers={"Host": host.format(port=port_of(server))})
    assert answer.status_code == 403
    assert "this server accepts" in answer.json()["error"]


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}"])
def test_names_of_this_machine_are_answered(server: Serving, host: str) -> None:
    assert server.client.get("/v1/info", headers={"Host": host.format(port=port_of(server))}).status_code == 200


def test_a_request_without_a_host_is_refused(server: Serving) -> None:
    with socket.create_connection(("127.0.0.1", int(port_of(server)))) as connection:
        connection.sendall(b"GET /v1/info HTTP/1.0\r\n\r\n")
        assert b" 403 " in connection.recv(4096).splitlines()[0]


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost"])
def test_a_post_from_another_page_is_refused(server: Serving, origin: str) -> None:
    answer = server.client.post("/v1/interpolate", json=QUESTION, headers={"Origin": origin})
    assert answer.status_code == 403
    assert "only this server's own page" in answer.json()["error"]


def test_a_post_from_the_own_page_is_answered(server: Serving) -> None:
    answer = server.client.post("/v1/interpolate", json=QUESTION, headers={"Origin": server.address})
    assert answer.status_code == 200


def test_host_rules() -> None:
    own = HostRule.of("192.168.1.5", 8765)
    assert own.allows("192.168.1.5:8765")
    assert own.allows("localhost:8765")
    assert not own.allows("192.168.1.6:8765")
    everywhere = HostRule.of("0.0.0.0", 8765)
    assert everywhere.allows("192.168.1.6:8765")
    assert everywhere.allows("[fe80::1]:8765")
    assert everywhere.allows(f"{socket.gethostname()}:8765")
    assert not everywhere.allows("evil.example:8765")
    proxied = HostRule.of("127.0.0.1", 8765, ["Linda.example.org"])
    assert proxied.allows("linda.example.org")
    assert proxied.allows("LINDA.example.org:8443")  # the port of the proxy
    assert not proxied.allows("example.org")
    assert not proxied.allows("evil.linda.example.org")
    assert not proxied.allows("127.0.0.1:8443")
    assert HostRule.of("::1", 80).allows("[::1]")
    assert not HostRule.of("127.0.0.1", 80).allows("")


def test_a_page_behind_a_proxy_may_send_requests(scored_interpolator: ScoredInterpolator) -> None:
    with serving(scored_interpolator, allow_hosts=["linda.example.org"]) as running:
        for origin, status in (("https://linda.example.org", 200), ("https://evil.example", 403)):
            headers = {"Host": "linda.example.org", "Origin": origin}
            assert running.client.post("/v1/interpolate", json=QUESTION, headers=headers).status_code == status
        refused = running.client.get("/", headers={"Host": "evil.example"})
        assert "accepts linda.example.org, 127.0.0.1:" in refused.json()["error"]


def test_loopback_names() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.0.0.2", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.1.5", "example.org")))


# --- token ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(scored_interpolator: ScoredInterpolator) -> Iterator[Serving]:
    limits = Limits(body_bytes=2_000, upload_bytes=3_000)
    with serving(scored_interpolator, token=TOKEN, limits=limits) as running:
        yield running


@pytest.mark.parametrize("header", [None, "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer é"])
def test_without_the_token_nothing_is_answered(guarded: Serving, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header.encode()}
    for path in ("/v1/info", "/v1/openapi.json", "/v1/bench"):
        answer = guarded.client.get(path, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert guarded.client.post("/v1/interpolate", json=QUESTION, headers=headers).status_code == 401


def test_with_the_token_it_is(guarded: Serving) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert guarded.client.post("/v1/interpolate", json=QUESTION, headers=headers).status_code == 200
    assert guarded.client.get("/").status_code == 200  # the page itself must load to ask for it


# --- sizes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "size"), [("/v1/interpolate", 2_001), ("/v1/tables?name=a.csv", 3_001), ("/v1/bench", 3_001)]
)
def test_a_large_body_is_413(guarded: Serving, path: str, size: int) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    body = json.dumps({"a": "x", "b": "y" * size})[:size].encode()
    said = guarded.client.post(path, content=body, headers=headers)
    assert said.status_code == 413
    counted = guarded.client.post(path, content=iter([body[:1_500], body[1_500:]]), headers=headers)  # no length
    assert counted.status_code == 413
    assert "larger than" in counted.json()["error"]


def test_the_cells_of_a_benchmark_may_be_as_large_as_a_table(guarded: Serving) -> None:
    body = json.dumps({"cells": CELLS}).encode()
    assert 2_000 < len(body) < 3_000
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    assert guarded.client.post("/v1/bench", content=body, headers=headers).status_code == 200


def test_a_refused_upload_leaves_no_file(scored_interpolator: ScoredInterpolator, tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with serving(scored_interpolator, limits=Limits(upload_bytes=100)) as running:
        assert running.client.post("/v1/tables?name=a.csv", content=iter([b"x" * 90] * 5)).status_code == 413
        assert running.upload("a.csv", "text,label\nonly one column\n").status_code == 422
        assert running.upload("a.gif", "text").status_code == 422
        [folder] = tmp_path.iterdir()
        assert list(folder.iterdir()) == []
    assert list(tmp_path.iterdir()) == []


# --- paths and headers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/static/../guard.py",
        "/static/..%2fguard.py",
        "/static//etc/passwd",
        "/static/%2e%2e/api.py",
        "/static/",
    ],
)
def test_no_other_file_is_served(server: Serving, path: str) -> None:
    with socket.create_connection(
        ("127.0.0.1", int(port_of(server)))
    ) as connection:  # a client would normalize the path
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port_of(server)}\r\n\r\n".encode())
        assert b" 404 " in connection.recv(4096).splitlines()[0]


@pytest.mark.parametrize("name", ["../../etc/passwd.csv", "/etc/hosts.csv", "C:\\secret\\a.csv", "a\x00b.csv"])
def test_the_name_of_an_upload_is_only_shown(server: Serving, name: str) -> None:
    answer = server.upload(name, "text,label\none text,x\nanother text,x\n")
    assert answer.status_code == 200
    assert answer.json()["name"] in ("passwd.csv", "hosts.csv", "a.csv", "ab.csv")
    assert answer.json()["rows"] == 2


@pytest.mark.parametrize("path", ["/", "/api", "/static/js/main.js", "/v1/info", "/v1/nothing"])
def test_security_headers(server: Serving, path: str) -> None:
    headers = server.client.get(path).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "Access-Control-Allow-Origin" not in headers
    if path.startswith("/v1/"):
        assert headers["Cache-Control"] == "no-store"
