"""Checks that every request must pass, and the headers of every response.

Host     rejects other host names, so that a site whose name resolves to this machine (DNS rebinding) has no access
Origin   rejects POST requests from pages of other sites
token    if one is set, the API requires it
size     limits a body before it is read
"""

import hmac
import ipaddress
import socket
from collections.abc import Collection
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from linda.web.limits import Limits

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")

_CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "font-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}

# Paths that accept whole files.
_UPLOADS = ("/v1/tables", "/v1/bench")

# Paths without user data: the page must load before it can ask for the token.
_API_PREFIX = "/v1/"


def is_loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


@dataclass(frozen=True)
class HostRule:
    """The accepted Host headers: names of this server with its port, and public names (of a proxy) with any port."""

    names: frozenset[str]
    port: int
    any_address: bool  # bound to every interface, whose addresses are not all known
    public: frozenset[str] = frozenset()

    @classmethod
    def of(cls, host: str, port: int, public: Collection[str] = ()) -> "HostRule":
        names = {*_LOOPBACK_NAMES, _bracketed(host)}
        any_address = host in ("0.0.0.0", "::")
        if any_address:
            names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        return cls(frozenset(names), port, any_address, frozenset(map(str.lower, public)))

    def allows(self, header: str) -> bool:
        name, colon, port = header.lower().rpartition(":")
        if not colon or "]" in port:  # no port given
            name, port = header.lower(), "80"
        if name in self.public:
            return True
        if port != str(self.port):
            return False
        return name in self.names or (self.any_address and _address(name.strip("[]")) is not None)

    def __str__(self) -> str:
        return ", ".join([*sorted(self.public), *sorted(f"{name}:{self.port}" for name in self.names)])


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host.lower()


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an IP address, which DNS rebinding cannot use; None for other names."""
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


class Guard:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, hosts: HostRule, token: str | None, limits: Limits) -> None:
        self._app = app
        self._hosts = hosts
        self._token = token
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no WebSockets
            await send({"type": "websocket.close", "code": 1008})
            return
        limit = self._limits.upload_bytes if scope["path"] in _UPLOADS else self._limits.body_bytes
        refusal = self._refusal(scope, Headers(scope=scope), limit)
        app = self._app if refusal is None else refusal
        await app(scope, _bounded(receive, limit), _with_headers(send, scope["path"]))

    def _refusal(self, scope: Scope, headers: Headers, limit: int) -> JSONResponse | None:
        host = headers.get("host", "")
        if not self._hosts.allows(host):
            return _error(403, f"the host is {host!r}; this server accepts {self._hosts}; see --allow-host")
        origin = headers.get("origin")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return _error(403, f"the request comes from a page of {origin!r}; only this server's own page may send it")
        if scope["path"].startswith(_API_PREFIX) and not self._has_token(headers):
            answer = _error(401, "this server requires a token; send it as `Authorization: Bearer TOKEN`")
            answer.headers["WWW-Authenticate"] = "Bearer"
            return answer
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > limit:
            return _error(413, _too_large(limit))
        return None

    def _has_token(self, headers: Headers) -> bool:
        if self._token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token.encode())


def _error(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status)


def _too_large(limit: int) -> str:
    return f"the request is larger than {limit / 2**20:g} MB; send less at a time, or use the command line"


def _bounded(receive: Receive, limit: int) -> Receive:
    """Count the bytes of a body as they arrive, because its length may be missing or wrong."""
    received = 0

    async def counted() -> Message:
        nonlocal received
        message = await receive()
        if message["type"] == "http.request":
            received += len(message.get("body", b""))
            if received > limit:
                raise HTTPException(413, _too_large(limit))
        return message

    return counted


def _with_headers(send: Send, path: str) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(_HEADERS)
            if path.startswith(_API_PREFIX):
                headers["Cache-Control"] = "no-store"
        await send(message)

    return sent
