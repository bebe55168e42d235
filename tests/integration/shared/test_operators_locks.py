"""Whatever operators and workers do to the same tasks at once, nobody deadlocks."""

import asyncio
import random
from typing import Any
from uuid import UUID

import psycopg
import pytest

from support.factories import make_tasks
from support.hands import claiming
from support.waiting import PATIENCE
from support.workers import rows
from taskbell.shared import queues
from taskbell.shared.audit import look
from taskbell.shared.database import DedicatedConnection, conninfo
from taskbell.shared.statement import Statement
from taskbell.shared.statements import cancel, claim, dead_letter, partition, settlement
from taskbell.shared.statements import queue as statements

TASKS, SECONDS = 40, 4.0
FENCES = "SELECT task_id, attempt, worker_id FROM taskbell.lease"
REVIVE = Statement("""
WITH back AS (
    UPDATE taskbell.task SET status = 'FAILED' WHERE status = 'CANCELLED' RETURNING *
)
INSERT INTO taskbell.dead_letter (task_id, failed_at, attempt_count, owner_id, queue, type,
                                  partition_key)
SELECT id, clock_timestamp(), attempt_count, owner_id, queue, type, partition_key FROM back
RETURNING task_id
""")
"""The test's own: what was cancelled is dead instead, and may be redriven."""


@pytest.fixture
async def ids(database_url: str, connection: DedicatedConnection) -> list[UUID]:
    """Heads of as many partitions of a queue on hold, each with one task behind it."""
    await queues.set_on_dead(connection, "default", "hold", actor="me")
    return [
        task_id
        for n in range(TASKS // 2)
        for task_id in make_tasks(database_url, 2, partition_key=f"k{n}", max_attempts=2)
    ]


async def test_operators_and_workers_over_the_same_tasks_never_deadlock(
    database_url: str, connection: DedicatedConnection, ids: list[UUID]
) -> None:
    over = asyncio.Event()
    deadlocks: list[str] = []

    async def hammer(statement: Statement, **given: object) -> None:
        async with await psycopg.AsyncConnection.connect(
            conninfo(database_url), autocommit=True
        ) as ours:
            while not over.is_set():
                # A few cancels at a time, or nothing would be left to fail.
                mixed = random.sample(ids, 4 if statement is cancel.CANCEL else len(ids))
                given = {**given, **arguments(statement, mixed)}
                try:
                    await (await ours.execute(statement.for_psycopg, given)).fetchall()
                except psycopg.errors.DeadlockDetected as error:
                    deadlocks.append(str(error))

    def arguments(statement: Statement, mixed: list[UUID]) -> dict[str, Any]:
        if statement is not settlement.SETTLE:
            return {"task_ids": mixed} if "task_ids" in statement.parameters else {}
        held = rows(database_url, FENCES)
        random.shuffle(held)
        nothing: list[None] = [None] * len(held)
        return dict.fromkeys(statement.parameters, nothing) | {
            "worker_id": "w",
            "task_ids": [lease.task_id for lease in held],
            "attempts": [lease.attempt for lease in held],
            "outcomes": ["fail"] * len(held),
        }

    delays = {"delays": [0.0] * TASKS, "actor": "me"}
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as background:
        for statement, given in (
            (claim.BY_QUEUE, claiming("w", limit=20)),
            (settlement.SETTLE, {}),
            (settlement.REAP, {"batch": 20}),
            (partition.PROMOTE, {"batch": 20}),
            (REVIVE, {}),
            (cancel.CANCEL, {"actor": "me"}),
            (dead_letter.REDRIVE, delays),
            (dead_letter.REDRIVE, delays),
            (statements.RELEASE, {"queue": "default", "partition_key": None, "actor": "me"}),
        ):
            background.create_task(hammer(statement, **given))
        await asyncio.sleep(SECONDS)
        over.set()

    assert deadlocks == []
    assert await look(connection) == []
