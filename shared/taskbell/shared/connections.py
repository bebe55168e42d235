"""A few connections for many concurrent callers, with the deadlines of the dedicated ones."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Protocol

from psycopg import AsyncConnection

from taskbell.shared.database import Database, DedicatedConnection, Rows
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.statement import Statement


class Runner(Protocol):
    """Whatever runs one statement in a transaction of its own."""

    async def run(self, statement: Statement, **parameters: object) -> Rows:
        """Run it and return its rows; raises ``DatabaseAway``."""
        ...


class Connections:
    """Up to ``size`` connections, opened when needed and again after they broke.

    A caller waits ``patience`` seconds for a free one at most; then, as when the database cannot be
    asked, ``DatabaseAway`` is raised.
    """

    def __init__(self, database: Database, purpose: str, size: int, patience: float = 2.0) -> None:
        self.database = database
        self._patience = patience
        self._room = asyncio.Semaphore(size)
        # The one used last is taken first: the others may rest and, behind a pooler, close.
        self._free = [DedicatedConnection(database, purpose) for _ in range(size)]

    async def run(self, statement: Statement, **parameters: object) -> Rows:
        """Run one statement in a transaction of its own and return its rows.

        Deadlocks and serialization failures are retried. Raises ``DatabaseAway``.
        """
        taken = await self._take()
        try:
            return await taken.run(statement, **parameters)
        finally:
            self._give_back(taken)

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[AsyncConnection[Any]]:
        """Hold one in autocommit mode, for the deadline at most; raises ``DatabaseAway``."""
        taken = await self._take()
        try:
            connection = await taken.opened()
            async with taken.guarded(connection):
                yield connection
        finally:
            self._give_back(taken)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[AsyncConnection[Any]]:
        """Hold one in a transaction that commits at the end, or rolls back if the block raises.

        Raises ``DatabaseAway``; whether it was committed is unknown then.
        """
        async with self.one() as connection, connection.transaction():
            yield connection

    async def _take(self) -> DedicatedConnection:
        if self._room.locked():
            try:
                async with asyncio.timeout(self._patience):
                    await self._room.acquire()
            except TimeoutError:
                raise DatabaseAway("all connections are busy") from None
        else:  # at once, and without a clock, which costs more than the rest
            await self._room.acquire()
        taken = self._free.pop()
        taken.forget_if_ended()
        return taken

    def _give_back(self, taken: DedicatedConnection) -> None:
        self._free.append(taken)
        self._room.release()

    async def close(self) -> None:
        """Close those that are not in use."""
        for each in self._free:
            await each.close()
