"""One use of a connection: bounded by a deadline, and never left broken for the next."""

import asyncio
import os
import select
import socket
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import psycopg
from psycopg import AsyncConnection, Connection

from taskbell.shared.errors import DatabaseAway

AWAY = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError)
"""What psycopg raises when the way to the database broke, or was not found."""

RETRIED = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
"""Two transactions met. Operational by name, but the connection is whole."""

NOT_MIGRATED = (
    psycopg.errors.InvalidSchemaName,
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
)
"""What a database answers that does not have our schema, or not all of it."""

# So are these, and waiting does not mend them.
_REFUSED = (psycopg.errors.ProgramLimitExceeded, psycopg.errors.StatementTooComplex)


class Guard:
    """Turns what breaks a connection into ``DatabaseAway``, and closes one that broke.

    ``close``: how; also done where the caller leaves in the middle of a statement. A class and not
    a generator, for every statement of a role runs inside one.
    """

    __slots__ = ("_alarm", "_close", "_connection", "_deadline")

    def __init__(
        self,
        connection: AsyncConnection[Any],
        deadline: float,
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self._connection = connection
        self._deadline = deadline
        self._close = close
        self._alarm: asyncio.TimerHandle

    async def __aenter__(self) -> None:
        # Cutting the wire rather than cancelling the wait: a cancelled psycopg asks the server to
        # stop and waits for its answer, which a silent network never brings.
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(self._deadline, cut, self._connection)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if isinstance(error, asyncio.CancelledError):
                await self._close()
            elif isinstance(error, AWAY) and not isinstance(error, RETRIED + _REFUSED):
                await self._close()
                raise DatabaseAway(str(error)) from error
        finally:
            self._alarm.cancel()


def was_spoken_to(connection: AsyncConnection[Any]) -> bool:
    """Whether the server said something unasked to a resting connection: mostly, its end."""
    look = select.poll()
    look.register(connection.fileno(), select.POLLIN)
    return bool(look.poll(0))


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
