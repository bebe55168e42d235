"""Where effects get their sessions and connections: one source for all attempts of a worker."""

import threading
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg

from taskbell.consumer.errors import InvalidEffect
from taskbell.consumer.psycopg_transaction import (
    AsyncConnectionTransaction,
    ConnectionTransaction,
    Spare,
)
from taskbell.consumer.transaction import Isolation
from taskbell.shared.database import Database

if TYPE_CHECKING:  # loading it costs a process half a second, and only some have effects through it
    from sqlalchemy import Engine
    from sqlalchemy.ext.asyncio import AsyncEngine

    from taskbell.consumer.session_transaction import AsyncSessionTransaction, SessionTransaction

Given: TypeAlias = psycopg.AsyncConnection[Any] | psycopg.Connection[Any]
"""A connection the handler brings."""


class Effects:
    """Opens transactions on taskbell's own database, or on an engine of the handler's.

    ``engine``: the application's engine on taskbell's own database, of either kind. Whatever it
    does not cover is made when first needed. Thread-safe.
    """

    def __init__(
        self, database: Database, slots: int, engine: "Engine | AsyncEngine | None" = None
    ) -> None:
        self.database = database
        """Taskbell's own."""
        self._slots = slots
        self._lock = threading.Lock()
        self._given = engine
        self._engine: Engine | None = None
        self._async_engine: AsyncEngine | None = None
        self._spare = Spare(database)

    def async_session(
        self, engine: "Engine | AsyncEngine | None", isolation: Isolation
    ) -> "AsyncSessionTransaction":
        """Prepare a transaction through an AsyncSession; raises ``InvalidEffect``."""
        from sqlalchemy.ext.asyncio import AsyncEngine  # noqa: PLC0415 - see above

        from taskbell.consumer import session_transaction as through  # noqa: PLC0415 - see above

        if engine is not None and not isinstance(engine, AsyncEngine):
            raise InvalidEffect("async with needs an AsyncEngine")
        chosen = engine or self._given
        if not isinstance(chosen, AsyncEngine):
            with self._lock:
                chosen = self._async_engine = self._async_engine or through.make_async_engine(
                    self.database, self._slots
                )
        return through.AsyncSessionTransaction(chosen, isolation)

    def session(
        self, engine: "Engine | AsyncEngine | None", isolation: Isolation
    ) -> "SessionTransaction":
        """Prepare a transaction through a Session; raises ``InvalidEffect``."""
        from sqlalchemy import Engine  # noqa: PLC0415 - see above

        from taskbell.consumer import session_transaction as through  # noqa: PLC0415 - see above

        if engine is not None and not isinstance(engine, Engine):
            raise InvalidEffect("with needs an Engine, not an AsyncEngine")
        chosen = engine or self._given
        if not isinstance(chosen, Engine):
            with self._lock:
                chosen = self._engine = self._engine or through.make_engine(
                    self.database, self._slots
                )
        return through.SessionTransaction(chosen, isolation)

    def async_connection(
        self, given: Given | None, isolation: Isolation
    ) -> AsyncConnectionTransaction:
        """Prepare a transaction through a psycopg connection; raises ``InvalidEffect``."""
        if isinstance(given, psycopg.Connection):
            raise InvalidEffect("async with needs a psycopg.AsyncConnection")
        return AsyncConnectionTransaction(self._spare, given, isolation)

    def connection(self, given: Given | None, isolation: Isolation) -> ConnectionTransaction:
        """Prepare a transaction through a psycopg connection; raises ``InvalidEffect``."""
        if isinstance(given, psycopg.AsyncConnection):
            raise InvalidEffect("with needs a psycopg.Connection, not an AsyncConnection")
        return ConnectionTransaction(self._spare, given, isolation)

    async def close(self) -> None:
        """Close what was made here and is not in use."""
        if self._async_engine is not None:
            await self._async_engine.dispose()
        if self._engine is not None:
            self._engine.dispose()
        while self._spare.awaited:
            await self._spare.awaited.pop()[0].close()
        while self._spare.blocking:
            self._spare.blocking.pop()[0].close()
