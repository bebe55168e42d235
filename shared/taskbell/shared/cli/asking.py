"""How an operator's command reaches the database, and how it ends when it cannot."""

import asyncio
import getpass
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import psycopg
import typer

from taskbell.shared.address import conninfo, reason, where
from taskbell.shared.cli.ending import fail
from taskbell.shared.cli.migrate import DatabaseUrl, required
from taskbell.shared.database import Database, DedicatedConnection
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.guard import NOT_MIGRATED

__all__ = ["Actor", "DatabaseUrl", "Yes", "ask", "myself", "require_yes"]

# An operator's statement may read a whole table; the roles' deadline is too short for it.
_DEADLINE_SECONDS = 300.0

T = TypeVar("T")

Actor = Annotated[
    str | None,
    typer.Option(help="Who does it, for the audit log; the user of the system if not given."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Really, for more than one.")]


def ask(database_url: str | None, verb: Callable[[DedicatedConnection], Awaitable[T]]) -> T:
    """Run the verb on a connection of its own; whatever goes wrong is one line and code 1."""
    database_url = required(database_url)
    try:
        conninfo(database_url)
    except ValueError as error:  # repeats no part of it
        fail(f"the database URL is {error}", code=2)
    # As if behind a pooler: two round trips more, and it works through one.
    database = Database(database_url, behind_pooler=True, deadline=_DEADLINE_SECONDS)
    try:
        return asyncio.run(_asked(database, verb))
    except NOT_MIGRATED:
        fail(f"the database {where(database_url)} has no such tables: run taskbell migrate")
    except (DatabaseAway, psycopg.Error) as error:
        fail(f"the database {where(database_url)} answered: {reason(error, database_url)}")


async def _asked(database: Database, verb: Callable[[DedicatedConnection], Awaitable[T]]) -> T:
    connection = DedicatedConnection(database, "cli")
    try:
        return await verb(connection)
    finally:
        await connection.close()


def myself(actor: str | None) -> str:
    """Name who acts: as given, or the user of the system."""
    if actor:
        return actor
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user may have a number and no name
        return "unknown"


def require_yes(count: int, deed: str, *, yes: bool) -> None:
    """End the command if it would do this to many and nobody said ``--yes``."""
    if count > 1 and not yes:
        fail(f"this would {deed} {count}: repeat it with --yes", code=2)
