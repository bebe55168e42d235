"""The caller's connections of SQLAlchemy, and whatever else is given for a connection."""

from typing import Any

import psycopg
from sqlalchemy import Connection
from sqlalchemy.exc import UnboundExecutionError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from taskbell.producer.submission import Rows, Submission
from taskbell.shared.errors import UnsupportedConnection

BLOCKING = (Session, scoped_session, Connection)
"""What can be run through without awaiting."""

_AWAITED = (AsyncSession, async_scoped_session, AsyncConnection)

# A server-side cursor, which the caller may have asked for, cannot run a statement that writes.
_BUFFERED = {"stream_results": False, "yield_per": 0}


def run(connection: Session | scoped_session[Any] | Connection, submission: Submission) -> Rows:
    """Run a submission in the caller's transaction; raises ``UnsupportedConnection``."""
    statement, parameters = submission.statement.for_sqlalchemy, submission.parameters
    match connection:
        case Session() | scoped_session() | Connection():
            _require_psycopg(connection)
            return connection.execute(statement, parameters, execution_options=_BUFFERED).all()
        case _:
            raise _refusal(connection)


async def run_async(
    connection: AsyncSession | async_scoped_session[Any] | AsyncConnection, submission: Submission
) -> Rows:
    """Run a submission in the caller's transaction; raises ``UnsupportedConnection``."""
    statement, parameters = submission.statement.for_sqlalchemy, submission.parameters
    match connection:
        case AsyncSession() | async_scoped_session() | AsyncConnection():
            _require_psycopg(connection)
            rows = await connection.execute(statement, parameters, execution_options=_BUFFERED)
            return rows.all()
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
    if isinstance(connection, (*_AWAITED, psycopg.AsyncConnection)):
        return UnsupportedConnection(f"Producer cannot await a {given}: use AsyncProducer")
    if isinstance(connection, (*BLOCKING, psycopg.Connection)):
        return UnsupportedConnection(f"a {given} would block the event loop: use Producer")
    return UnsupportedConnection(
        f"cannot write through a {given}; Producer accepts a SQLAlchemy Session or Connection or a "
        "psycopg.Connection, AsyncProducer an AsyncSession, an AsyncConnection or a "
        "psycopg.AsyncConnection"
    )
