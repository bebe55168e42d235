"""Keys of the HTTP interface: create, list, rotate, revoke."""

import typer


def extend(commands: typer.Typer) -> None:
    """Add the commands to ``taskbell keys``."""
    del commands
