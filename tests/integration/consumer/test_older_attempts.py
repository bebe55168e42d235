"""A worker that lost a lease and claimed the task again asks about both attempts at once."""

from typing import Any
from uuid import UUID

import pytest

from support.factories import make_tasks
from support.hands import Hands, hands, settling
from support.workers import rows
from taskbell.shared.lifecycle import Verdict
from taskbell.shared.statements import lease, settlement


async def claimed_twice(url: str, worker: Hands) -> UUID:
    """A task whose first lease ran out and whose second one the same worker holds."""
    (task_id,) = make_tasks(url)
    await worker.claim_ids([task_id])
    rows(url, "UPDATE taskbell.lease SET expires_at = clock_timestamp()")
    await worker.connection.run(settlement.REAP, batch=10)
    (again,) = await worker.claim_ids([task_id])
    assert again.attempt == 2
    return task_id


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
async def test_a_beat_tells_the_older_attempt_that_it_lost(
    database_url: str, order: tuple[int, int]
) -> None:
    async with hands(database_url) as worker:
        task_id = await claimed_twice(database_url, worker)
        seconds = {1: 1000.0, 2: 7000.0}

        answers = await worker.connection.run(
            lease.HEARTBEAT, worker_id=worker.name, task_ids=[task_id, task_id],
            attempts=list(order), leases=[seconds[attempt] for attempt in order],
        )  # fmt: skip

    assert {row.attempt: row.answer for row in answers} == {1: "lost", 2: "held"}
    (left,) = rows(database_url, "SELECT expires_at - clock_timestamp() AS of FROM taskbell.lease")
    assert left.of.total_seconds() > 5000


@pytest.mark.parametrize("verdict", ["completed", "fail"])
async def test_a_settlement_answers_the_older_attempt_that_it_lost(
    database_url: str, verdict: Verdict
) -> None:
    async with hands(database_url) as worker:
        task_id = await claimed_twice(database_url, worker)
        older = settling(worker.name, task_id, 1, verdict)
        newer = settling(worker.name, task_id, 2, verdict)

        answers = await worker.connection.run(settlement.SETTLE, **_both(older, newer))

    expected = "COMPLETED" if verdict == "completed" else "FAILED"
    assert {row.attempt: row.answer for row in answers} == {1: "lost", 2: expected}


def _both(older: dict[str, Any], newer: dict[str, Any]) -> dict[str, Any]:
    """The parameters of two settlements in one; what is no list is the worker's name."""
    return {name: older[name] + newer[name] if name != "worker_id" else older[name]
            for name in older}  # fmt: skip


async def test_a_plain_completion_names_the_attempt_it_completed(database_url: str) -> None:
    async with hands(database_url) as worker:
        task_id = await claimed_twice(database_url, worker)

        answers = await worker.connection.run(
            settlement.SETTLE_COMPLETED, worker_id=worker.name,
            task_ids=[task_id, task_id], attempts=[1, 2],
        )  # fmt: skip

    assert [(row.task_id, row.attempt) for row in answers] == [(task_id, 2)]
