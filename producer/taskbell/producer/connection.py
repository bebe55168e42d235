"""The caller's connections, each with its way to run one statement in the caller's transaction.

The only place where sync and async differ.
"""

from typing import Any, TypeAlias

import psycopg
from psycopg.rows import tuple_row
from sqlalchemy import Connection
from sqlalchemy.exc import UnboundExecutionError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from taskbell.producer.submission import Rows, Submission
from taskbell.shared.errors import UnsupportedConnection

Blocking: TypeAlias = Session | scoped_session[Any] | Connection | psycopg.Connection[Any]
"""What ``Producer`` writes through."""

Awaited: TypeAlias = (
    AsyncSession | async_scoped_session[Any] | AsyncConnection | psycopg.AsyncConnection[Any]
)
"""What ``AsyncProducer`` writes through."""

_BLOCKING = (Session, scoped_session, Connection, psycopg.Connection)
_AWAITED = (AsyncSession, async_scoped_session, AsyncConnection, psycopg.AsyncConnection)

# A server-side cursor, which the caller may have asked for, cannot run a statement that writes.
_BUFFERED = {"stream_results": False, "yield_per": 0}


def run(connection: Blocking, submission: Submission) -> Rows:
    """Run a submission in the caller's transaction; raises ``UnsupportedConnection``."""
    statement, parameters = submission.statement, submission.parameters
    match connection:
        case psycopg.Connection():
            # A cursor of our own making: the caller's factories may be of any kind.
            with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
                return cursor.execute(statement.for_psycopg, parameters).fetchall()
        case Session() | scoped_session() | Connection():
            _require_psycopg(connection)
            return connection.execute(
                statement.for_sqlalchemy, parameters, execution_options=_BUFFERED
            ).all()
        case _:
            raise _refusal(connection)


async def run_async(connection: Awaited, submission: Submission) -> Rows:
    """Run a submission in the caller's transaction; raises ``UnsupportedConnection``."""
    statement, parameters = submission.statement, submission.parameters
    match connection:
        case psycopg.AsyncConnection():
            async with psycopg.AsyncCursor(connection, row_factory=tuple_row) as cursor:
                await cursor.execute(statement.for_psycopg, parameters)
                return await cursor.fetchall()
        case AsyncSession() | async_scoped_session() | AsyncConnection():
            _require_psycopg(connection)
            result = await connection.execute(
                statement.for_sqlalchemy, parameters, execution_options=_BUFFERED
            )
            return result.all()
        case _:
            raise _refusal(connection)


def _require_psycopg(
    connection: Session
    | scoped_session[Any]
    | Connection
    | AsyncSession
    | async_scoped_session[Any]
    | AsyncConnection,
) -> None:
    """Refuse another database or driver before a statement could break the transaction."""
    if isinstance(connection, Connection | AsyncConnection):
        dialect = connection.dialect
    else:
        try:
            dialect = connection.get_bind().dialect
        except UnboundExecutionError as error:
            raise UnsupportedConnection(
                "the session does not know which engine to use for a plain statement; "
                "pass the connection it should use instead of the session"
            ) from error
    if (dialect.name, dialect.driver) != ("postgresql", "psycopg"):
        raise UnsupportedConnection(
            f"the connection speaks {dialect.name}+{dialect.driver}; "
            "taskbell writes through postgresql+psycopg"
        )


def _refusal(connection: object) -> UnsupportedConnection:
    given = f"{type(connection).__module__}.{type(connection).__qualname__}"
    if isinstance(connection, _AWAITED):
        return UnsupportedConnection(f"Producer cannot await a {given}: use AsyncProducer")
    if isinstance(connection, _BLOCKING):
        return UnsupportedConnection(f"a {given} would block the event loop: use Producer")
    return UnsupportedConnection(
        f"cannot write through a {given}; Producer accepts a SQLAlchemy Session or Connection or a "
        "psycopg.Connection, AsyncProducer an AsyncSession, an AsyncConnection or a "
        "psycopg.AsyncConnection"
    )
