"""Least privilege for every role."""

import typer


def register(app: typer.Typer) -> None:
    """Add the commands."""
    del app
