"""The caller's connections, each with its way to run one statement in the caller's transaction.

The only place where sync and async differ. SQLAlchemy costs a process 25 MB and most of its start:
it is loaded for those alone who come with something that is not psycopg's.
"""

from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import psycopg
from psycopg.rows import tuple_row

from taskbell.producer.submission import Rows, Submission

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
    from sqlalchemy.orm import Session, scoped_session

Blocking: TypeAlias = "Session | scoped_session[Any] | Connection | psycopg.Connection[Any]"
"""What ``Producer`` writes through."""

Awaited: TypeAlias = (
    "AsyncSession | async_scoped_session[Any] | AsyncConnection | psycopg.AsyncConnection[Any]"
)
"""What ``AsyncProducer`` writes through."""


def run(connection: "Blocking", submission: Submission) -> Rows:
    """Run a submission in the caller's transaction; raises ``UnsupportedConnection``."""
    if not isinstance(connection, psycopg.Connection):
        from taskbell.producer import session  # noqa: PLC0415 - see above

        return session.run(connection, submission)
    # A cursor of our own making: the caller's factories may be of any kind.
    with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
        cursor.execute(submission.statement.for_psycopg, submission.parameters)
        return cursor.fetchall()


async def run_async(connection: "Awaited", submission: Submission) -> Rows:
    """Run a submission in the caller's transaction; raises ``UnsupportedConnection``."""
    if not isinstance(connection, psycopg.AsyncConnection):
        from taskbell.producer import session  # noqa: PLC0415 - see above

        return await session.run_async(connection, submission)
    async with psycopg.AsyncCursor(connection, row_factory=tuple_row) as cursor:
        await cursor.execute(submission.statement.for_psycopg, submission.parameters)
        return await cursor.fetchall()


def is_blocking(connection: "Blocking | Awaited") -> TypeGuard["Blocking"]:
    """Whether a connection is one for ``Producer``."""
    if isinstance(connection, psycopg.Connection | psycopg.AsyncConnection):
        return isinstance(connection, psycopg.Connection)
    from taskbell.producer import session  # noqa: PLC0415 - see above

    return isinstance(connection, session.BLOCKING)
