"""Creates and runs the application."""

import hashlib
import mimetypes
import socket
import webbrowser
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp

from linda import __version__, methods
from linda.errors import LindaError, os_reason, shortened
from linda.web.api import CLIENT_CLOSED, Services, make_router
from linda.web.batcher import Batcher, CancelledError, QueueFullError
from linda.web.guard import Guard, HostRule
from linda.web.interpolation import ScoredInterpolator, SharedInterpolator, checked_settings
from linda.web.jobs import Workspace
from linda.web.limits import Limits
from linda.web.tables import LoadedMethods

_FINISH_SECONDS = 60  # time for running requests after SIGTERM

_CONTENT_TYPES = {".js": "text/javascript; charset=utf-8", ".woff2": "font/woff2"}


def make_app(
    interpolator: ScoredInterpolator,
    hosts: HostRule,
    *,
    token: str | None = None,
    model: str | None = None,
    engine: str = "auto",
    trigrams: str | None = None,
    bench: list[Path] | None = None,
    limits: Limits | None = None,
) -> ASGIApp:
    """Create the ASGI application of page and API.

    Args:
        interpolator: The loaded model.
        hosts: The accepted Host headers.
        token: The token that clients of the API must send, if any.
        model: As given on the command line, for the commands that the page shows.
        engine: Likewise.
        trigrams: Trigram table of the method crossover; None: it is not offered.
        bench: Folders of `linda bench` that the page shows.
        limits: Limits of a request.

    Returns:
        The application, with the checks of `Guard` around it.

    Example:
        app = make_app(ScoredInterpolator.load(None, "auto"), HostRule.of("127.0.0.1", 8765))
    """
    limits = limits or Limits()
    batcher = Batcher(interpolator.mix, limits.waiting_rows)
    given = {"model": model, "engine": None if engine == "auto" else engine, "trigrams": trigrams}
    crossover = None if trigrams is None else methods.load("crossover", trigrams=trigrams)
    loaded = LoadedMethods(SharedInterpolator(interpolator.plain, batcher), crossover)
    workspace = Workspace(loaded, limits, given)
    services = Services(batcher, workspace, limits, given, interpolator.engine_name, bench or [])

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            workspace.close()
            batcher.close()

    app = FastAPI(
        title="LINDA",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
    )
    app.include_router(make_router(services))
    _add_error_handlers(app)
    _add_page(app)
    # Warm up: the first texts of an engine take longer.
    batcher.mix([("The first text.", "The second text.", 0.5, 0)], checked_settings())
    return Guard(app, hosts, token, limits)


def serve(
    host: str,
    port: int,
    *,
    allow_hosts: Collection[str] = (),
    open_page: bool,
    token: str | None,
    model: str | None,
    engine: str,
    trigrams: str | None,
    bench: list[Path],
    on_ready: Callable[[str], object],
) -> None:
    """Serve until SIGINT or SIGTERM; running requests are finished first.

    Args:
        host: Address to listen on.
        port: Port to listen on; 0 for any free port.
        allow_hosts: Other names of the server for clients, such as that of a proxy.
        open_page: Open the page in the user's browser.
        token: The token that clients of the API must send, if any.
        model: As in `Interpolator.from_pretrained`.
        engine: As in `Interpolator.from_pretrained`.
        trigrams: Trigram table of the method crossover, if any.
        bench: Folders of `linda bench` to show.
        on_ready: Called with the address of the page.

    Example:
        serve("127.0.0.1", 8765, open_page=True, token=None, model=None, engine="auto", trigrams=None, bench=[],
            on_ready=print)
    """
    with listening(host, port) as listener:
        port = listener.getsockname()[1]
        interpolator = ScoredInterpolator.load(model, engine)
        hosts = HostRule.of(host, port, allow_hosts)
        app = make_app(interpolator, hosts, token=token, model=model, engine=engine, trigrams=trigrams, bench=bench)
        shown = "127.0.0.1" if hosts.any_address else host
        address = f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/"
        on_ready(address)
        if open_page:
            webbrowser.open(address if token is None else f"{address}#token={token}")
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # do not trust headers for the origin of a request
            lifespan="on",
            timeout_graceful_shutdown=_FINISH_SECONDS,
        )
        uvicorn.Server(config).run(sockets=[listener])


def listening(host: str, port: int) -> socket.socket:
    """Return a listening socket. Connections wait until the server is ready."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        raise LindaError(
            f"cannot listen on {host} port {port}: {os_reason(error)}; choose another --port or --host"
        ) from error


# --- errors ---------------------------------------------------------------------------------------------------


def _add_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(LindaError)
    async def wrong_value(request: Request, error: LindaError) -> Response:
        return JSONResponse({"error": str(error)}, 422)

    @app.exception_handler(RequestValidationError)
    async def wrong_type(request: Request, error: RequestValidationError) -> Response:
        return JSONResponse({"error": _one_line(error)}, 422)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": str(error.detail)}, error.status_code, headers=error.headers)

    @app.exception_handler(QueueFullError)
    async def busy(request: Request, error: QueueFullError) -> Response:
        return JSONResponse({"error": str(error)}, 429, headers={"Retry-After": str(error.retry_after)})

    @app.exception_handler(ClientDisconnect)
    async def dropped(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=CLIENT_CLOSED)

    @app.exception_handler(CancelledError)
    async def ending(request: Request, error: CancelledError) -> Response:
        return JSONResponse({"error": "the server is shutting down; try again later"}, 503)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": "internal server error; see the log of the server"}, 500)


def _one_line(error: RequestValidationError) -> str:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return f"the body is not JSON ({first.get('ctx', {}).get('error', 'cannot be read')})"
    name = ".".join(str(part) for part in first["loc"][1:]) or "the body"
    if first["type"] == "extra_forbidden":
        return f"unknown setting {name!r}; see /api for all settings"
    if first["type"] == "missing":
        return f"{name} is missing; give it"
    return f"{name} is {shortened(first.get('input'))}: {first['msg'][:1].lower()}{first['msg'][1:]}"


# --- the page -------------------------------------------------------------------------------------------------


def _add_page(app: FastAPI) -> None:
    """Read all files of the page once, so that no request opens a file."""
    pages = {"/": "index.html", "/api": "api.html"}
    contents = dict(_contents(files("linda.web").joinpath("static"), "/static"))

    def add(path: str, name: str, body: bytes) -> None:
        etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        suffix = Path(name).suffix
        kind = _CONTENT_TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
        headers = {"ETag": etag, "Cache-Control": "no-cache"}

        async def answer(request: Request) -> Response:
            if request.headers.get("if-none-match") == etag:
                return Response(status_code=304, headers=headers)
            return Response(body, media_type=kind, headers=headers)

        app.add_api_route(path, answer, include_in_schema=False)

    for path, body in contents.items():
        add(path, path, body)
    for path, name in pages.items():
        add(path, name, contents[f"/static/{name}"])


def _contents(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        path = f"{prefix}/{entry.name}"
        if entry.is_dir():
            yield from _contents(entry, path)
        else:
            yield path, entry.read_bytes()
