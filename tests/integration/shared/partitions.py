"""Partitions for tests: their lines, their heads, and heads that end badly."""

from uuid import UUID

from support.factories import make_tasks
from support.hands import Hands
from support.workers import rows, task_of
from taskbell.shared import tasks
from taskbell.shared.database import DedicatedConnection
from taskbell.shared.statements import settlement

ENDS = ("fail", "reap", "cancel waiting", "cancel running")


def line(url: str, count: int, key: str = "k", *, max_attempts: int = 5) -> list[UUID]:
    """So many tasks of one partition, in order."""
    return [make_tasks(url, partition_key=key, max_attempts=max_attempts)[0] for _ in range(count)]


def heads(url: str) -> list[UUID]:
    """The entries that are not parked."""
    return [
        row.task_id
        for row in rows(url, "SELECT task_id FROM taskbell.outbox WHERE NOT parked ORDER BY 1")
    ]


async def end_badly(
    url: str, worker: Hands, connection: DedicatedConnection, task_id: UUID, end: str
) -> None:
    """Make the task the head and end it in one of the ways ``ENDS``."""
    await worker.promote()
    if end == "cancel waiting":
        await tasks.cancel_many(connection, [task_id], actor="me")
    else:
        (lease,) = await worker.claim_ids([task_id])
        match end:
            case "fail":
                await worker.settle(task_id, lease.attempt, "fail")
            case "reap":
                rows(url, "UPDATE taskbell.lease SET expires_at = clock_timestamp()")
                await connection.run(settlement.REAP, batch=10)
            case _:
                await tasks.cancel_many(connection, [task_id], actor="me")
                await worker.settle(task_id, lease.attempt, "cancelled")
    assert task_of(url, task_id).status in {"FAILED", "CANCELLED"}
