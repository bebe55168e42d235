"""The bare framework: what a service would write by hand with FastAPI, and no more.

``python -m benchmarks.floors.web``: one insert of two rows and one select by key, on as many
connections as ``taskbell api`` has and on uvicorn as it comes; no keys, no idempotency, no bounds,
no problem documents.
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

import uvicorn
from fastapi import FastAPI, HTTPException, Path
from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb
from pydantic import BaseModel

from taskbell.producer.api.server import Server, bound
from taskbell.producer.api.settings import ApiSettings
from taskbell.shared.database import conninfo
from taskbell.shared.ids import new_task_id
from taskbell.shared.loop import new_loop

CONNECTIONS: Final = 10
"""As many as ``taskbell api`` has unless told otherwise."""

_INSERT: Final = b"""
WITH t AS (
    INSERT INTO taskbell.task (id, type, queue, payload)
    VALUES (%(id)s, %(type)s, %(queue)s, %(payload)s)
    RETURNING id, queue, priority, scheduled_at
)
INSERT INTO taskbell.outbox (task_id, queue, priority, publish_at)
SELECT id, queue, priority, scheduled_at FROM t
"""
_SELECT: Final = b"""
SELECT id AS task_id, type, queue, status, attempt_count, created_at, scheduled_at, started_at,
       finished_at, error_message, result
FROM taskbell.task WHERE id = %s
"""


class Submission(BaseModel):
    """What is posted."""

    type: str
    queue: str
    payload: Any


class Accepted(BaseModel):
    """What a post is answered with."""

    task_id: UUID
    status: str


class Told(BaseModel):
    """What a get is answered with."""

    task_id: UUID
    type: str
    queue: str
    status: str
    attempt_count: int
    created_at: datetime
    scheduled_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    error_message: str | None
    result: Any


class Pool:
    """As few lines as a pool of connections can have."""

    def __init__(self) -> None:
        self._free: asyncio.LifoQueue[AsyncConnection[dict[str, Any]]] = asyncio.LifoQueue()

    async def open(self) -> None:
        """Open all of them."""
        for _ in range(CONNECTIONS):
            self._free.put_nowait(
                await AsyncConnection[dict[str, Any]].connect(
                    conninfo(os.environ["TASKBELL_DATABASE_URL"]),
                    autocommit=True,
                    prepare_threshold=0,
                    row_factory=dict_row,
                )
            )

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[AsyncConnection[dict[str, Any]]]:
        """One of them, for a while."""
        taken = await self._free.get()
        try:
            yield taken
        finally:
            self._free.put_nowait(taken)


def build(pool: Pool) -> FastAPI:
    """Make the application."""
    # As in ours: nobody is measured here who traces.
    app = FastAPI(
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
    )

    @app.post("/tasks", status_code=201)
    async def submit(asked: Submission) -> Accepted:
        task_id = new_task_id()
        values = {
            "id": task_id, "type": asked.type, "queue": asked.queue,
            "payload": Jsonb(asked.payload),
        }  # fmt: skip
        async with pool.one() as connection:
            await connection.execute(_INSERT, values)
        return Accepted(task_id=task_id, status="PENDING")

    @app.get("/tasks/{task_id}")
    async def show(task_id: Annotated[UUID, Path()]) -> Told:
        async with pool.one() as connection:
            cursor = await connection.execute(_SELECT, (task_id,))
            row = await cursor.fetchone()
        if row is None:
            raise HTTPException(404)
        return Told.model_validate(row)

    return app


async def serve() -> None:
    """Serve until SIGTERM."""
    pool = Pool()
    await pool.open()
    settings = ApiSettings.read()
    listener = bound(settings.api_host, settings.api_port)
    config = uvicorn.Config(build(pool), log_config=None, access_log=False)
    await Server(config, _tell_started).serve(sockets=[listener])


def _tell_started() -> None:
    sys.stdout.write('"event": "role_started"\n')
    sys.stdout.flush()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(serve())
