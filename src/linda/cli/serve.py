"""`linda serve`: a page to see interpolation, and an API for other programs."""

import click

from linda.cli.options import engine_option, trigrams_option
from linda.errors import LindaError

_SHORTEST_TOKEN = 16


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; others need --token.")
@click.option("--port", default=8765, show_default=True, type=click.IntRange(0, 65535), help="0 is any free port.")
@click.option("--open/--no-open", "open_page", default=True, show_default=True, help="Show the page in your browser.")
@click.option("--token", envvar="LINDA_TOKEN", show_envvar=True, help="What clients must send to use the API.")
@click.option("--model", metavar="FOLDER", help="A model that `linda train` wrote.  [default: embedded]")
@engine_option
@trigrams_option
@click.option("--bench", multiple=True, metavar="FOLDER", help="Results of `linda bench` to show; may be given again.")
def command(
    host: str,
    port: int,
    open_page: bool,
    token: str | None,
    model: str | None,
    engine: str,
    trigrams: str | None,
    bench: tuple[str, ...],
) -> None:
    """Open a page with interpolation, tables and benchmark results, and answer other programs over HTTP.

    \b
    On this machine only:
      linda serve
    With the results of a benchmark that is still running:
      linda serve --bench results
    For others in the network, who need the token:
      LINDA_TOKEN=$(openssl rand -hex 16) linda serve --host 0.0.0.0 --no-open

    Everything is computed on this machine, and nothing is sent elsewhere. Ctrl-C or SIGTERM ends the server when
    running requests are finished. The API is described on its own page, /api.
    """
    try:
        from linda.web.bench_results import checked_folder
        from linda.web.guard import is_loopback
        from linda.web.server import serve
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "starlette", "uvicorn"):
            raise
        raise LindaError(f"linda serve needs {error.name}: pip install 'linda[web]'") from error

    if token is None and not is_loopback(host):
        raise LindaError(f"--host {host} is open to other machines; give a token too (--token, or LINDA_TOKEN)")
    if token is not None and (len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        raise LindaError(f"the token has {len(token)} characters; give at least {_SHORTEST_TOKEN}, all of them ASCII")
    serve(
        host,
        port,
        open_page=open_page,
        token=token,
        model=model,
        engine=engine,
        trigrams=trigrams,
        bench=[checked_folder(folder) for folder in bench],
        on_ready=lambda address: click.echo(f"LINDA is at {address}  (Ctrl-C ends it)", err=True),
    )
