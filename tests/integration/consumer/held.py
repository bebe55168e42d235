"""Leases put where a test needs them, and their settlement by a settler of its own."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from support.waiting import PATIENCE
from support.workers import Reports, rows
from taskbell.consumer.context import Context, Told
from taskbell.consumer.ended import Answered, Ended
from taskbell.consumer.leases import Lease
from taskbell.consumer.settling import Settler
from taskbell.shared.database import Database, DedicatedConnection
from taskbell.shared.ids import WorkerId
from taskbell.shared.lifecycle import Settlement, Verdict

WORKER = WorkerId("w")


def lend(url: str, ids: Sequence[UUID], *, used: int = 1, cancelled: bool = False) -> None:
    """Put leases of worker ``w`` on these tasks, at the given number of tries used."""
    rows(url, "DELETE FROM taskbell.outbox WHERE task_id = ANY (%s)", list(ids))
    rows(
        url,
        "UPDATE taskbell.task SET status = 'IN_PROGRESS', attempt_count = 7, refunded = %s "
        "WHERE id = ANY (%s)",
        7 - used, list(ids),
    )  # fmt: skip
    rows(
        url,
        "INSERT INTO taskbell.lease (task_id, queue, worker_id, attempt, expires_at, "
        "cancel_requested, partition_key) SELECT id, queue, 'w', attempt_count, "
        "clock_timestamp() + interval '1 minute', %s, partition_key FROM taskbell.task "
        "WHERE id = ANY (%s)",
        cancelled, list(ids),
    )  # fmt: skip


def ended(task_id: UUID, verdict: Verdict = "completed", **rest: Any) -> Ended:
    told = Told()
    context = Context(task_id, 7, "noop", "default", "", None, None, datetime.now(UTC), told)
    held = Lease(context, 1, {}, 60.0, float("inf"), told, None)
    return Ended(held, Settlement(task_id, 7, verdict, **rest))


async def settled(url: str, reports: Reports, *group: Ended) -> dict[UUID, str | None]:
    """Settle a group through a settler of its own."""
    answers: dict[UUID, str | None] = {}

    def note(answered: Sequence[Answered]) -> None:
        answers.update((each.ended.lease.task_id, each.status) for each in answered)

    settler = Settler(DedicatedConnection(Database(url), "settle"), WORKER, reports, note)
    for each in group:
        settler.add(each)
    running = asyncio.ensure_future(settler.run())
    async with asyncio.timeout(PATIENCE):
        await settler.drained()
    running.cancel()
    await settler.close()
    return answers
