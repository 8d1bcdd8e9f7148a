"""`linda serve`: serve a web page and an HTTP API."""

import re

import click

from linda.cli.grouped_help import GroupedCommand
from linda.cli.options import engine_option, trigrams_option
from linda.errors import LindaError

_SHORTEST_TOKEN = 16


GROUPS = {
    "Server": ("host", "port", "allow_host", "token", "open_page"),
    "Model": ("model", "engine", "trigrams"),
    "Page": ("bench",),
}

EXAMPLES = """\b
Examples:
  On this machine only, with the results of a benchmark that may still be running:
    linda serve --bench results
  For other machines in the network; clients must send the token:
    LINDA_TOKEN=$(openssl rand -hex 16) linda serve --host 0.0.0.0 --no-open
"""

HOST_HELP = "Address to listen on; addresses other than loopback need --token."
ALLOW_HELP = "Another name of the server for clients, such as that of a proxy; needs --token. Can be repeated."
TOKEN_HELP = "Token that clients must send, at least 16 characters."
BENCH_HELP = "Show the results of `linda bench` in this folder. Can be repeated."


@click.command(cls=GroupedCommand, groups=GROUPS, epilog=EXAMPLES)
@click.option("--host", default="127.0.0.1", help=HOST_HELP)
@click.option("--port", default=8765, type=click.IntRange(0, 65535), help="Port; 0 selects a free one.")
@click.option("--allow-host", multiple=True, metavar="NAME", help=ALLOW_HELP)
@click.option("--open/--no-open", "open_page", default=True, help="Open the page in the browser.")
@click.option("--token", envvar="LINDA_TOKEN", show_envvar=True, help=TOKEN_HELP)
@click.option("--model", metavar="FOLDER", help="Model written by `linda train`.  [default: embedded]")
@engine_option
@trigrams_option
@click.option("--bench", multiple=True, metavar="FOLDER", help=BENCH_HELP)
def command(
    host: str,
    port: int,
    allow_host: tuple[str, ...],
    open_page: bool,
    token: str | None,
    model: str | None,
    engine: str,
    trigrams: str | None,
    bench: tuple[str, ...],
) -> None:
    """Serve a page with interpolation, tables and benchmark results, and an HTTP API.

    Everything is computed on this machine; nothing is sent elsewhere. Ctrl-C or SIGTERM finishes running requests and
    stops the server. The page /api describes the API.
    """
    try:
        from linda.web.bench_results import checked_folder
        from linda.web.guard import is_loopback
        from linda.web.server import serve
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "starlette", "uvicorn"):
            raise
        raise LindaError(f"linda serve needs {error.name}: pip install 'linda[web]'") from error

    for name in allow_host:
        if not re.fullmatch(r"[\w-]+(\.[\w-]+)*", name, re.ASCII):
            raise LindaError(f"--allow-host {name!r} is not a host name; give it alone, such as linda.example.org")
    if token is None and (allow_host or not is_loopback(host)):
        given = f"--allow-host {allow_host[0]}" if allow_host else f"--host {host}"
        raise LindaError(f"{given} is open to other machines; give a token too (--token, or LINDA_TOKEN)")
    if token is not None and (len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        raise LindaError(f"the token has {len(token)} characters; give at least {_SHORTEST_TOKEN}, all printable ASCII")
    serve(
        host,
        port,
        allow_hosts=allow_host,
        open_page=open_page,
        token=token,
        model=model,
        engine=engine,
        trigrams=trigrams,
        bench=[checked_folder(folder) for folder in bench],
        on_ready=lambda address: click.echo(f"LINDA is running at {address} (Ctrl-C to stop)", err=True),
    )
