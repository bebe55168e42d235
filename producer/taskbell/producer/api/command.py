"""``taskbell api``: the HTTP interface as a process."""

from typing import Annotated

import typer
from pydantic import ValidationError

from taskbell.shared.cli.ending import fail
from taskbell.shared.settings import sentence

_EXTRA = frozenset({"fastapi", "starlette", "uvicorn", "httptools", "jwt"})


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("api")(api)


def api(
    host: Annotated[str | None, typer.Option(help="Address to listen on; else 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; else 8080.")] = None,
) -> None:
    """Serve the HTTP task API, until SIGTERM; run as many as you like."""
    try:
        # Here and not above: the command line is there without the extra.
        from taskbell.producer.api import server  # noqa: PLC0415 - see the line above
        from taskbell.producer.api.settings import ApiSettings  # noqa: PLC0415 - the same
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        fail("taskbell api needs its extra: pip install 'taskbell-producer[api]'", code=2)
    try:
        settings = ApiSettings.read(api_host=host, api_port=port)
    except ValidationError as error:
        fail(sentence(error), code=2)
    server.run(settings)
