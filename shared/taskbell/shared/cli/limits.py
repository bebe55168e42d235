"""Rates of owners and keys."""

import typer


def register(app: typer.Typer) -> None:
    """Add the commands."""
    del app
