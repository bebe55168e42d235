"""How our own connections reach Postgres: dedicated, READ COMMITTED, with deadlines, for ever.

Callers' sessions are theirs; these connections are the roles'. Every failure of the way to the
database surfaces as ``DatabaseAway``: it never counts as a task's failure, and what was sent may or
may not have been committed.
"""

import asyncio
import os
import random
import socket
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg import AsyncConnection, Connection, IsolationLevel
from psycopg.rows import namedtuple_row

from taskbell.shared.errors import DatabaseAway
from taskbell.shared.statement import Statement

_RETRIED = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
_AWAY = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError)
# Operational by name, but waiting does not mend them.
_REFUSED = (psycopg.errors.ProgramLimitExceeded, psycopg.errors.StatementTooComplex)
_TRIES_AFTER_CONFLICT = 5
_SESSION = "-c jit=off -c default_transaction_isolation=read\\ committed"
_KEEPALIVE = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}

Rows = list[Any]
"""Named tuples; their fields are the statement's columns."""


def conninfo(url: str) -> str:
    """Return libpq's form of a URL that may name SQLAlchemy's driver."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    if scheme.partition("+")[0] not in {"postgresql", "postgres"}:
        raise ValueError(f"not a Postgres URL: {scheme}://…")
    return f"postgresql://{rest}"


def where(url: str) -> str:
    """Name a server for people: host, port and path of its URL, never a password."""
    parts = urlsplit(url)
    return f"{parts.hostname or 'local socket'}:{parts.port or 'default port'}{parts.path}"


@dataclass(frozen=True, slots=True)
class Database:
    """Where taskbell's database is.

    ``behind_pooler``: a pooler in transaction mode stands in between, so that no session state and
    no prepared statement may be relied on; costs a BEGIN and a COMMIT for each statement.
    ``deadline``: seconds after which an unanswered statement counts as lost.
    """

    url: str = field(repr=False)
    behind_pooler: bool = False
    deadline: float = 15.0

    async def connect(self, purpose: str) -> AsyncConnection[Any]:
        """Open a connection in autocommit mode; raises ``DatabaseAway``."""
        try:
            connection = await AsyncConnection.connect(
                conninfo(self.url), autocommit=True, row_factory=namedtuple_row,
                **self._options(purpose),
            )  # fmt: skip
        except psycopg.Error as error:
            raise _away(error) from error
        await connection.set_isolation_level(IsolationLevel.READ_COMMITTED)
        return connection

    def connect_blocking(self, purpose: str) -> Connection[Any]:
        """Open the same connection for a thread of its own."""
        try:
            connection = Connection.connect(
                conninfo(self.url), autocommit=True, row_factory=namedtuple_row,
                **self._options(purpose),
            )  # fmt: skip
        except psycopg.Error as error:
            raise _away(error) from error
        connection.isolation_level = IsolationLevel.READ_COMMITTED
        return connection

    def _options(self, purpose: str) -> dict[str, Any]:
        options: dict[str, Any] = {**_KEEPALIVE, "application_name": f"taskbell {purpose}"}
        if self.behind_pooler:
            return options | {"prepare_threshold": None}
        return options | {"prepare_threshold": 1, "options": _SESSION}


def _away(error: psycopg.Error) -> DatabaseAway:
    told = str(error)
    if "unsupported startup parameter" in told:
        told += " (a pooler stands in between: set TASKBELL_BEHIND_POOLER=true)"
    return DatabaseAway(told)


def cut(connection: AsyncConnection[Any] | Connection[Any]) -> None:
    """Break a connection from this side, so that whoever waits on it stops waiting at once."""
    with _tolerant(), socket.socket(fileno=os.dup(connection.fileno())) as wire:
        wire.shutdown(socket.SHUT_RDWR)


@contextmanager
def _tolerant() -> Generator[None]:
    try:
        yield
    except (OSError, psycopg.Error):  # broken already, or closed by the thread that uses it
        return


class DedicatedConnection:
    """One connection for one purpose, opened when first used and again after it broke.

    Not for concurrent use: a purpose runs one statement at a time.
    """

    def __init__(self, database: Database, purpose: str) -> None:
        self.database = database
        self.purpose = purpose
        self._connection: AsyncConnection[Any] | None = None

    async def run(self, statement: Statement, **parameters: object) -> Rows:
        """Run one statement in a transaction of its own and return its rows.

        Deadlocks and serialization failures are retried. Raises ``DatabaseAway``; the connection is
        then closed and the next call opens another.
        """
        return await self.run_in_one(((statement, parameters),))

    async def run_in_one(self, steps: tuple[tuple[Statement, dict[str, object]], ...]) -> Rows:
        """Run statements in one transaction; the next runs only if the one before answered rows.

        Returns the last rows seen, or none when a step before the last answered none.
        """
        for tries_left in reversed(range(_TRIES_AFTER_CONFLICT)):
            connection = await self.opened()
            try:
                with self._deadline(connection):
                    return await self._execute(connection, steps)
            except _RETRIED as error:
                if not tries_left:
                    raise DatabaseAway(str(error)) from error
                await asyncio.sleep(random.uniform(0.005, 0.05))  # noqa: S311 - jitter, no secret
            except _REFUSED:
                raise
            except _AWAY as error:
                await self.close()
                raise DatabaseAway(str(error)) from error
            except asyncio.CancelledError:
                await self.close()
                raise
        raise AssertionError("unreachable")

    async def _execute(
        self,
        connection: AsyncConnection[Any],
        steps: tuple[tuple[Statement, dict[str, object]], ...],
    ) -> Rows:
        if len(steps) == 1 and not self.database.behind_pooler:
            statement, parameters = steps[0]
            cursor = await connection.execute(statement.for_psycopg, parameters)
            return await cursor.fetchall()
        rows: Rows = []
        async with connection.transaction():
            for statement, parameters in steps:
                cursor = await connection.execute(statement.for_psycopg, parameters)
                rows = await cursor.fetchall()
                if not rows:
                    return []
        return rows

    async def vacuum(self, statement: Statement) -> None:
        """Run a statement that allows no transaction around it and answers no rows."""
        connection = await self.opened()
        try:
            await connection.execute(statement.for_psycopg)
        except _AWAY as error:
            await self.close()
            raise DatabaseAway(str(error)) from error

    async def opened(self) -> AsyncConnection[Any]:
        """Return the connection, opening it if need be; raises ``DatabaseAway``."""
        if self._connection is None or self._connection.closed:
            self._connection = await self.database.connect(self.purpose)
        return self._connection

    @contextmanager
    def _deadline(self, connection: AsyncConnection[Any]) -> Generator[None]:
        # Cutting the wire rather than cancelling the wait: a cancelled psycopg asks the server to
        # stop and waits for its answer, which a silent network never brings.
        alarm = asyncio.get_running_loop().call_later(self.database.deadline, cut, connection)
        try:
            yield
        finally:
            alarm.cancel()

    async def close(self) -> None:
        """Close the connection, if there is one; the next use opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
