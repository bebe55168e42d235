"""Keys that seal: make one, seal anew, owners' own keys."""

import typer


def extend(commands: typer.Typer) -> None:
    """Add the commands to ``taskbell keys``."""
    del commands
