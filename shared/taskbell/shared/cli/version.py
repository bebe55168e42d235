"""`taskbell version`."""

from importlib.metadata import version as version_of

import typer

__all__ = ["register", "version"]


def register(app: typer.Typer) -> None:
    app.command("version")(version)


def version() -> None:
    """Show which taskbell this is; all its distributions share one version."""
    typer.echo(f"taskbell {version_of('taskbell-shared')}")
