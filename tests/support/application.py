"""The handlers acceptance tests run in real consumers; each start is a row in a table."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from taskbell.consumer import Consumer, Context, Fixed
from taskbell.shared.database import conninfo

SCHEMA = """
CREATE SCHEMA acceptance;
CREATE TABLE acceptance.run (
    task_id uuid NOT NULL, attempt integer NOT NULL, pid integer NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
"""

RECORD = "INSERT INTO acceptance.run (task_id, attempt, pid) VALUES (%s, %s, %s)"

LEASE = 3.0

app = Consumer()


@app.handler("record", lease=LEASE, retry=Fixed(delay=0.2))
async def record(context: Context, payload: dict[str, Any]) -> None:
    """Write that this task started; take as long as the payload says."""
    await book().write(context.task_id, context.attempt)
    await asyncio.sleep(payload.get("seconds", 0))


class Book:
    """This process's connection for writing down what ran; opened anew after it broke."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._connection: AsyncConnection[Any] | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[AsyncConnection[Any]]:
        """The connection, for one handler at a time."""
        async with self._lock:
            if self._connection is None or self._connection.closed:
                self._connection = await AsyncConnection.connect(
                    conninfo(os.environ["TASKBELL_DATABASE_URL"]),
                    autocommit=True,
                    prepare_threshold=None,
                )
            yield self._connection

    async def write(self, task_id: UUID, attempt: int) -> None:
        """Note that a handler started."""
        async with self.opened() as connection:
            await connection.execute(RECORD, (task_id, attempt, os.getpid()))


@cache
def book() -> Book:
    """Give this process's book, made when the first task needs one."""
    return Book()
