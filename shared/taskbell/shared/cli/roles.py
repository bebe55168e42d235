"""`taskbell roles`: least privilege for every role in the database."""

from typing import Annotated

import typer

from taskbell.shared import roles
from taskbell.shared.cli.asking import DatabaseUrl, ask
from taskbell.shared.cli.ending import fail
from taskbell.shared.database import DedicatedConnection

__all__ = ["apply", "register"]

Sql = Annotated[bool, typer.Option("--sql", help="Print the script and change nothing.")]
Prefix = Annotated[
    str, typer.Option(help="What the roles' names begin with; one for each taskbell on a server.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    commands = typer.Typer(help="Roles of the database.", no_args_is_help=True)
    commands.callback()(_group)  # or its only command would be the group itself
    commands.command("apply")(apply)
    app.add_typer(commands, name="roles")


def _group() -> None:
    """Roles of the database, each with the least it needs."""


def apply(
    *, sql: Sql = False, prefix: Prefix = roles.PREFIX, database_url: DatabaseUrl = None
) -> None:
    """Make the roles, hand the schema to the migrator and grant; repeat it after each migration.

    The roles cannot log in: make users of them.
    """
    try:
        script = roles.sql(prefix)
    except ValueError as error:
        fail(f"--prefix: {error}", code=2)
    if sql:
        typer.echo(script, nl=False)
        return

    async def verb(connection: DedicatedConnection) -> list[str]:
        return await roles.apply(connection, prefix)

    typer.echo(f"granted to {', '.join(ask(database_url, verb))}")
