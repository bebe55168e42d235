"""Effects through SQLAlchemy; loaded by the first of them, since SQLAlchemy costs half a second."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import psycopg
from psycopg.rows import tuple_row
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry

from taskbell.consumer.errors import InvalidEffect
from taskbell.consumer.psycopg_transaction import is_warm
from taskbell.consumer.transaction import Ask, Command, Isolation, Run
from taskbell.shared.database import Database
from taskbell.shared.errors import DatabaseAway

_KEPT = 20
_NOT_YOURS = "the effect commits at the end of its block, or rolls back if the block raises"


class EffectSession(Session):
    """A session whose transaction is its effect's alone to end; savepoints are the handler's."""

    def commit(self) -> None:
        """Refuse."""
        raise InvalidEffect(_NOT_YOURS)

    def rollback(self) -> None:
        """Refuse."""
        raise InvalidEffect(f"{_NOT_YOURS}; begin_nested() makes a savepoint")

    def open(self, isolation: Isolation) -> None:
        """Begin at this isolation level, whatever the engine's own."""
        self.connection(execution_options={"isolation_level": isolation})
        self.info["effect"] = self.get_transaction()

    def require_open(self) -> None:
        """Refuse to go on in any transaction but the one that was begun."""
        if self.get_transaction() is not self.info["effect"]:
            raise InvalidEffect(_NOT_YOURS)

    def end(self, command: Ask) -> None:
        """Commit, roll back, give back or break the connection."""
        match command:
            case Ask.COMMIT:
                super().commit()
            case Ask.DISCARD:
                self.invalidate()
            case _:
                self.close()

    def do(self, command: Command, isolation: Isolation) -> Any:
        """Do what a plan asks."""
        match command:
            case Ask.OPEN:
                return self.open(isolation)
            case Ask.FLUSH:
                self.require_open()
                return self.flush()
            case Ask():
                return self.end(command)
            case _:
                return self.run(command)

    def run(self, command: Run) -> Any:
        """Run a statement of ours past SQLAlchemy, which costs as much again as the statement."""
        connection = self.connection()
        cursor = connection.connection.cursor()
        try:
            cursor.execute(command.statement.for_psycopg, command.parameters)
            names = [column[0] for column in cursor.description]
            rows = cursor.fetchall()
            return [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in rows]
        except psycopg.OperationalError as error:
            driver: Any = connection.connection.driver_connection
            if driver is None or driver.closed:  # the pool must not hand it out again
                connection.invalidate(error)
            raise
        finally:
            cursor.close()


class SessionTransaction:
    """One effect's Session."""

    def __init__(self, engine: Engine, isolation: Isolation) -> None:
        _require_psycopg(engine)
        self.handed = EffectSession(engine, expire_on_commit=False)
        self._isolation: Isolation = isolation

    def do(self, command: Command) -> Any:
        """Do what a plan asks."""
        try:
            return self.handed.do(command, self._isolation)
        except (DBAPIError, PoolTimeout) as error:
            raise _native(error, command) from error


class AsyncSessionTransaction:
    """One effect's AsyncSession."""

    def __init__(self, engine: AsyncEngine, isolation: Isolation) -> None:
        _require_psycopg(engine.sync_engine)
        self.handed: AsyncSession = AsyncSession(
            engine, sync_session_class=EffectSession, expire_on_commit=False
        )
        self._isolation: Isolation = isolation

    async def do(self, command: Command) -> Any:
        """Do what a plan asks; a connection goes back even if that is interrupted."""
        doing = self.handed.run_sync(_do, command, self._isolation)
        try:
            if command in (Ask.ROLLBACK, Ask.RETURN, Ask.DISCARD):
                return await asyncio.shield(asyncio.ensure_future(doing))
            return await doing
        except (DBAPIError, PoolTimeout) as error:
            raise _native(error, command) from error


def make_engine(database: Database, slots: int) -> Engine:
    """Make an engine on taskbell's own database, with a connection for every slot at most."""

    def connect() -> psycopg.Connection[Any]:
        connection = database.connect_blocking("effect")
        connection.autocommit, connection.row_factory = False, tuple_row
        return connection

    return _asking_only_after_rest(
        create_engine("postgresql+psycopg://", creator=connect, **_pool(slots))
    )


def make_async_engine(database: Database, slots: int) -> AsyncEngine:
    """Make the same for the event loop."""

    async def connect() -> psycopg.AsyncConnection[Any]:
        connection = await database.connect("effect")
        await connection.set_autocommit(False)
        connection.row_factory = tuple_row
        return connection

    engine = create_async_engine("postgresql+psycopg://", async_creator=connect, **_pool(slots))
    _asking_only_after_rest(engine.sync_engine)
    return engine


def _pool(slots: int) -> dict[str, Any]:
    kept = min(slots, _KEPT)
    return {"pool_size": kept, "max_overflow": slots - kept}


def _asking_only_after_rest(engine: Engine) -> Engine:
    """Let the pool ask a connection whether it answers, unless it was used a moment ago."""

    def note(_: DBAPIConnection | None, record: ConnectionPoolEntry) -> None:
        record.info["rests_since"] = time.monotonic()

    def ask(connection: DBAPIConnection, record: ConnectionPoolEntry, _: object) -> None:
        since = record.info.get("rests_since")
        if since is not None and not is_warm(since) and not _answers(engine, connection):
            raise DisconnectionError("it no longer answers: the pool opens another")

    event.listen(engine, "checkin", note)
    event.listen(engine, "checkout", ask)
    return engine


def _answers(engine: Engine, connection: DBAPIConnection) -> bool:
    try:
        return engine.dialect.do_ping(connection)
    except psycopg.Error:
        return False


def _do(session: Session, command: Command, isolation: Isolation) -> Any:
    if not isinstance(session, EffectSession):
        raise InvalidEffect(_NOT_YOURS)
    return session.do(command, isolation)


def _native(error: DBAPIError | PoolTimeout, command: Command) -> BaseException:
    """Return the driver's error for what was ours to send; the session's own for a flush."""
    if isinstance(error, PoolTimeout):
        return DatabaseAway(str(error))
    return error.orig if error.orig is not None and command is not Ask.FLUSH else error


def _require_psycopg(engine: Engine) -> None:
    if (engine.dialect.name, engine.dialect.driver) != ("postgresql", "psycopg"):
        raise InvalidEffect(
            f"the engine speaks {engine.dialect.name}+{engine.dialect.driver}; "
            "effects go through postgresql+psycopg"
        )
