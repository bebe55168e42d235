"""``taskbell keys``: keys of the HTTP interface, and keys that seal."""

import typer

from taskbell.shared.cli import api_keys, seal_keys


def register(app: typer.Typer) -> None:
    """Add the group."""
    commands = typer.Typer(
        help="Keys of the HTTP interface, and keys that seal.", no_args_is_help=True
    )
    api_keys.extend(commands)
    seal_keys.extend(commands)
    app.add_typer(commands, name="keys")
