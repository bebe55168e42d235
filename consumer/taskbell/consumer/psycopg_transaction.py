"""Effects through psycopg connections, the worker's own or the handler's."""

import asyncio
import time
from collections import deque
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from typing import Any

import psycopg
from psycopg import AsyncConnection, Connection, IsolationLevel
from psycopg.pq import TransactionStatus
from psycopg.rows import namedtuple_row

from taskbell.consumer.errors import InvalidEffect
from taskbell.consumer.transaction import Ask, Command, Isolation, Run
from taskbell.shared.database import Database

_LEVELS = {
    "READ COMMITTED": IsolationLevel.READ_COMMITTED,
    "REPEATABLE READ": IsolationLevel.REPEATABLE_READ,
    "SERIALIZABLE": IsolationLevel.SERIALIZABLE,
}
_KEPT = 20
# One that was used a moment ago is not asked whether it still answers: that is a round trip more
# for every effect, and an effect that finds it broken costs no try.
_WARM_SECONDS = 1.0


class Spare:
    """Connections of the worker that no effect uses now, and since when.

    For one loop, and for any thread.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.awaited: deque[tuple[AsyncConnection[Any], float]] = deque()
        self.blocking: deque[tuple[Connection[Any], float]] = deque()


class AsyncConnectionTransaction:
    """One effect's ``psycopg.AsyncConnection``."""

    def __init__(
        self, spare: Spare, given: AsyncConnection[Any] | None, isolation: Isolation
    ) -> None:
        self._spare = spare
        self._given = given
        self._isolation = _LEVELS[isolation]
        self._before: IsolationLevel | None = None
        self._connection: AsyncConnection[Any] | None = None
        self._block: AbstractAsyncContextManager[object] | None = None

    @property
    def handed(self) -> AsyncConnection[Any]:
        """The connection."""
        if self._connection is None:
            raise InvalidEffect("the effect has no connection")
        return self._connection

    async def do(self, command: Command) -> Any:
        """Do what a plan asks."""
        match command:
            case Ask.OPEN:
                return await self._open()
            case Run(statement, parameters):
                async with psycopg.AsyncCursor(self.handed, row_factory=namedtuple_row) as cursor:
                    await cursor.execute(statement.for_psycopg, parameters)
                    return await cursor.fetchall()
            case Ask.COMMIT:
                _require_whole(self.handed)
                return await self._leave(None)
            case Ask.ROLLBACK | Ask.RETURN:
                return await asyncio.shield(asyncio.ensure_future(self._return(command)))
            case Ask.DISCARD:
                return await self.handed.close()
            case Ask.FLUSH:
                return None

    async def _open(self) -> None:
        connection = self._given or await self._taken()
        _require_idle(connection)
        self._connection = connection
        self._before = self._connection.isolation_level
        if self._before is not self._isolation:
            await self._connection.set_isolation_level(self._isolation)
        block = self._connection.transaction()
        await block.__aenter__()
        self._block = block

    async def _taken(self) -> AsyncConnection[Any]:
        while self._spare.awaited:
            kept, since = self._spare.awaited.pop()
            if is_warm(since) or await _answers_async(kept):
                return kept
        return await self._spare.database.connect("effect")

    async def _leave(self, error: psycopg.Rollback | None) -> None:
        block, self._block = self._block, None
        if block is not None:
            await block.__aexit__(type(error) if error else None, error, None)

    async def _return(self, command: Ask) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            if command is Ask.ROLLBACK:
                await self._leave(psycopg.Rollback())
            if self._before is not self._isolation:
                await connection.set_isolation_level(self._before)
        except psycopg.Error:  # broken: whatever it had begun is rolled back
            await connection.close()
        if self._given is not None or connection.closed:
            return
        if len(self._spare.awaited) < _KEPT:
            self._spare.awaited.append((connection, time.monotonic()))
        else:
            await connection.close()


class ConnectionTransaction:
    """One effect's ``psycopg.Connection``."""

    def __init__(self, spare: Spare, given: Connection[Any] | None, isolation: Isolation) -> None:
        self._spare = spare
        self._given = given
        self._isolation = _LEVELS[isolation]
        self._before: IsolationLevel | None = None
        self._connection: Connection[Any] | None = None
        self._block: AbstractContextManager[object] | None = None

    @property
    def handed(self) -> Connection[Any]:
        """The connection."""
        if self._connection is None:
            raise InvalidEffect("the effect has no connection")
        return self._connection

    def do(self, command: Command) -> Any:
        """Do what a plan asks."""
        match command:
            case Ask.OPEN:
                return self._open()
            case Run(statement, parameters):
                with psycopg.Cursor(self.handed, row_factory=namedtuple_row) as cursor:
                    return cursor.execute(statement.for_psycopg, parameters).fetchall()
            case Ask.COMMIT:
                _require_whole(self.handed)
                return self._leave(None)
            case Ask.ROLLBACK | Ask.RETURN:
                return self._return(command)
            case Ask.DISCARD:
                return self.handed.close()
            case Ask.FLUSH:
                return None

    def _open(self) -> None:
        connection = self._given or self._taken()
        _require_idle(connection)
        self._connection = connection
        self._before = self._connection.isolation_level
        self._connection.isolation_level = self._isolation
        block = self._connection.transaction()
        block.__enter__()
        self._block = block

    def _taken(self) -> Connection[Any]:
        with suppress(IndexError):  # threads share what is kept
            while True:
                kept, since = self._spare.blocking.pop()
                if is_warm(since) or _answers(kept):
                    return kept
        return self._spare.database.connect_blocking("effect")

    def _leave(self, error: psycopg.Rollback | None) -> None:
        block, self._block = self._block, None
        if block is not None:
            block.__exit__(type(error) if error else None, error, None)

    def _return(self, command: Ask) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            if command is Ask.ROLLBACK:
                self._leave(psycopg.Rollback())
            connection.isolation_level = self._before
        except psycopg.Error:  # broken: whatever it had begun is rolled back
            connection.close()
        if self._given is not None or connection.closed:
            return
        if len(self._spare.blocking) < _KEPT:
            self._spare.blocking.append((connection, time.monotonic()))
        else:
            connection.close()


def is_warm(since: float) -> bool:
    """Whether a connection that rests since then (monotonic) may be taken without a question."""
    return time.monotonic() - since < _WARM_SECONDS


async def _answers_async(connection: AsyncConnection[Any]) -> bool:
    try:
        await connection.execute(b"")
    except psycopg.Error:
        await connection.close()
        return False
    return True


def _answers(connection: Connection[Any]) -> bool:
    try:
        connection.execute(b"")
    except psycopg.Error:
        connection.close()
        return False
    return True


def _require_idle(connection: AsyncConnection[Any] | Connection[Any]) -> None:
    if connection.info.transaction_status is not TransactionStatus.IDLE:
        raise InvalidEffect("an effect begins its own transaction: the connection must be idle")


def _require_whole(connection: AsyncConnection[Any] | Connection[Any]) -> None:
    """Leaving psycopg's block over a broken connection would be silent, and send no commit."""
    if connection.closed:
        raise psycopg.OperationalError("the connection was closed before the commit")
