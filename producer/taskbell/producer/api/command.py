"""``taskbell api``: the HTTP interface as a process."""

import typer

from taskbell.shared.cli.ending import fail


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("api")(api)


def api() -> None:
    """Serve the HTTP task API, until SIGTERM; run as many as you like."""
    fail("not there yet", code=2)
