"""How our own connections reach Postgres: dedicated, READ COMMITTED, with deadlines, for ever.

Callers' sessions are theirs; these connections are the roles'. Every failure of the way to the
database surfaces as ``DatabaseAway``: it never counts as a task's failure, and what was sent may or
may not have been committed.
"""

import asyncio
import random
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from json import JSONDecoder
from typing import Any

from psycopg import AsyncConnection, Connection, IsolationLevel
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Format
from psycopg.rows import namedtuple_row

from taskbell.shared.address import conninfo, where
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.guard import AWAY, RETRIED, Guard, cut, was_spoken_to
from taskbell.shared.statement import Statement
from taskbell.shared.statements import states

__all__ = ["AWAY", "Database", "DedicatedConnection", "Rows", "conninfo", "cut", "where"]

_TRIES_AFTER_CONFLICT = 5
_JSON = JSONDecoder()
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
        # In the background: psycopg loses a connection whose opener is cancelled as it arrives.
        opening = asyncio.ensure_future(self._open(purpose))
        try:
            await asyncio.wait({opening})
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unwanted)
            raise
        return opening.result()

    async def _open(self, purpose: str) -> AsyncConnection[Any]:
        with _translated():
            connection = await AsyncConnection.connect(
                conninfo(self.url), autocommit=True, row_factory=namedtuple_row,
                **self._options(purpose),
            )  # fmt: skip
        await connection.set_isolation_level(IsolationLevel.READ_COMMITTED)
        return connection

    def connect_blocking(self, purpose: str) -> Connection[Any]:
        """Open the same connection for a thread of its own."""
        with _translated():
            connection = Connection.connect(
                conninfo(self.url), autocommit=True, row_factory=namedtuple_row,
                **self._options(purpose),
            )  # fmt: skip
        connection.isolation_level = IsolationLevel.READ_COMMITTED
        return connection

    def _options(self, purpose: str) -> dict[str, Any]:
        """What the URL leaves open; its own parameters stay as they are."""
        given = conninfo_to_dict(conninfo(self.url))
        wanted: dict[str, Any] = {**_KEEPALIVE, "application_name": f"taskbell {purpose}"}
        options = {name: value for name, value in wanted.items() if name not in given}
        if self.behind_pooler:
            return options | {"prepare_threshold": None}
        # Ours last: where both set the same, the last one counts.
        session = f"{given.get('options', '')} {_SESSION}".strip()
        return options | {"prepare_threshold": 1, "options": session}


class _Jsonb(Loader):
    """Reads what Postgres itself wrote: no blank before it, and always UTF-8."""

    def load(self, data: Buffer) -> Any:
        return _JSON.raw_decode(bytes(data).decode())[0]


class _BinaryJsonb(Loader):
    """The same behind the byte that names the format's version."""

    format = Format.BINARY

    def load(self, data: Buffer) -> Any:
        return _JSON.raw_decode(bytes(data).decode(), 1)[0]


def _close_unwanted(opening: asyncio.Future[AsyncConnection[Any]]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().pgconn.finish()


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except AWAY as error:
        told = str(error)
        if "unsupported startup parameter" in told:
            told += " (a pooler stands in between: set TASKBELL_BEHIND_POOLER=true)"
        raise DatabaseAway(told) from error


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
                async with self.guarded(connection):
                    return await self._execute(connection, steps)
            except RETRIED as error:
                if not tries_left:
                    raise DatabaseAway(str(error)) from error
                await asyncio.sleep(random.uniform(0.005, 0.05))  # noqa: S311 - jitter, no secret
        raise AssertionError("unreachable")

    async def _execute(
        self,
        connection: AsyncConnection[Any],
        steps: tuple[tuple[Statement, dict[str, object]], ...],
    ) -> Rows:
        if len(steps) == 1 and not self.database.behind_pooler:
            statement, parameters = steps[0]
            cursor = await connection.execute(statement.for_psycopg, parameters, binary=True)
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
        """Run a statement that allows no transaction around it and answers no rows.

        Raises ``DatabaseAway``, like ``run``.
        """
        connection = await self.opened()
        async with self.guarded(connection):
            await connection.execute(statement.for_psycopg)

    async def opened(self) -> AsyncConnection[Any]:
        """Return the connection, opening it if need be; raises ``DatabaseAway``."""
        if self._connection is None or self._connection.closed:
            self._connection = await self.database.connect(self.purpose)
            self._connection.adapters.register_loader("jsonb", _Jsonb)
            self._connection.adapters.register_loader("jsonb", _BinaryJsonb)
        return self._connection

    async def require_writable(self) -> None:
        """Raise ``DatabaseAway`` if the database takes no writes: it is reached, and no use."""
        (row,) = await self.run(states.TAKES_WRITES)
        if not row.takes_writes:
            await self.close()  # what a session may do can be fixed when it begins
            raise DatabaseAway("the database is read-only")

    def forget_if_ended(self) -> None:
        """Let the next use open another connection if the server ended this one while it rested.

        Found out by the next statement, it would cost that one an error.
        """
        connection = self._connection
        if connection is not None and not connection.closed and was_spoken_to(connection):
            connection.pgconn.finish()

    def guarded(self, connection: AsyncConnection[Any]) -> Guard:
        """Bound what runs inside by the deadline; close what broke or was left in the middle."""
        return Guard(connection, self.database.deadline, self.close)

    async def close(self) -> None:
        """Close the connection, if there is one; the next use opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
