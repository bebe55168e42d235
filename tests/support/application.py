"""The handlers acceptance tests run in real consumers; each start is a row in a table."""

import asyncio
import os
from functools import cache
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from taskbell.consumer import Consumer, Context, RetryPolicy

SCHEMA = """
CREATE SCHEMA acceptance;
CREATE TABLE acceptance.run (
    task_id uuid NOT NULL, attempt integer NOT NULL, pid integer NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
"""

RECORD = text(
    "INSERT INTO acceptance.run (task_id, attempt, pid) VALUES (:task_id, :attempt, :pid)"
)

LEASE = 2.0

app = Consumer()


@app.handler("record", lease=LEASE, retry=RetryPolicy(delay=0.2))
async def record(context: Context, payload: dict[str, Any]) -> None:
    """Write that this task started; take as long as the payload says."""
    row = {"task_id": context.task_id, "attempt": context.attempt, "pid": os.getpid()}
    async with engine().begin() as connection:
        await connection.execute(RECORD, row)
    await asyncio.sleep(payload.get("seconds", 0))


@cache
def engine() -> AsyncEngine:
    """Give this process's engine, made when the first task needs one."""
    return create_async_engine(
        os.environ["TASKBELL_DATABASE_URL"],
        pool_size=10,
        pool_pre_ping=True,
        connect_args={"prepare_threshold": None},
    )
