"""Cancelling has exactly one answer, whatever the task is doing at that moment."""

import asyncio
from collections.abc import Callable
from uuid import UUID, uuid4

import pytest

from support.factories import make_tasks
from support.hands import Hands, claiming, session, settling
from support.workers import rows, task_of
from taskbell.shared import tasks
from taskbell.shared.database import DedicatedConnection
from taskbell.shared.events import LeasesReaped
from taskbell.shared.lifecycle import Verdict
from taskbell.shared.maintenance.reap import Reap
from taskbell.shared.statement import Statement
from taskbell.shared.statements import claim, lease, settlement
from taskbell.shared.statements.cancel import CANCEL


async def test_what_waits_is_cancelled_and_what_runs_is_requested(
    database_url: str, worker: Hands, connection: DedicatedConnection
) -> None:
    done, running = make_tasks(database_url, 2)
    await worker.complete(await worker.claim_ids([done]))
    (held,) = await worker.claim_ids([running])
    now, later = make_tasks(database_url)[0], make_tasks(database_url, delay=3600)[0]
    unknown = uuid4()

    answers = await tasks.cancel_many(
        connection, [done, running, now, later, unknown, now], actor="me"
    )

    assert answers == {
        done: "too late: COMPLETED", running: "requested", now: "cancelled", later: "cancelled",
        unknown: "unknown",
    }  # fmt: skip
    assert {task_of(database_url, each).status for each in (now, later)} == {"CANCELLED"}
    assert await worker.claim() == []
    (beat,) = await worker.connection.run(
        lease.HEARTBEAT, task_ids=[running], attempts=[held.attempt], leases=[30.0], worker_id="w"
    )
    assert beat.answer == "cancel"
    logged = rows(database_url, "SELECT subject, detail FROM taskbell.audit_log")
    assert {UUID(row.subject): row.detail["answer"] for row in logged} == {
        running: "requested", now: "cancelled", later: "cancelled"
    }  # fmt: skip


Parameters = Callable[[UUID], dict[str, object]]


def claimed(task_id: UUID) -> dict[str, object]:
    del task_id
    return claiming("w")


def settled_as(verdict: Verdict) -> Parameters:
    return lambda task_id: settling("w", task_id, 1, verdict)


def completed(task_id: UUID) -> dict[str, object]:
    return {"worker_id": "w", "task_ids": [task_id], "attempts": [1]}


SETTLE, HOT = settlement.SETTLE, settlement.SETTLE_COMPLETED


@pytest.mark.parametrize(
    ("statement", "parameters", "answer", "status"),
    [
        (claim.BY_QUEUE, claimed, "requested", "IN_PROGRESS"),
        (HOT, completed, "too late: COMPLETED", "COMPLETED"),
        (SETTLE, settled_as("completed"), "too late: COMPLETED", "COMPLETED"),
        (SETTLE, settled_as("fail"), "too late: FAILED", "FAILED"),
        (SETTLE, settled_as("retry"), "cancelled", "CANCELLED"),
        (SETTLE, settled_as("release"), "cancelled", "CANCELLED"),
    ],
    ids=["claim", "complete", "complete with result", "fail", "retry", "release"],
)
async def test_a_cancel_that_waits_for_another_answers_what_came_of_it(
    database_url: str, worker: Hands, connection: DedicatedConnection,
    statement: Statement, parameters: Parameters, answer: str, status: str,
) -> None:  # fmt: skip
    (task_id,) = make_tasks(database_url)
    if statement is not claim.BY_QUEUE:
        await worker.claim()
    async with session(database_url) as other:
        assert len(await other.run(statement, **parameters(task_id))) == 1
        cancelling = asyncio.create_task(tasks.cancel_many(connection, [task_id], actor="me"))
        await other.blocks_somebody()
        await other.commit()

        assert await cancelling == {task_id: answer}

    assert task_of(database_url, task_id).status == status
    entries = rows(database_url, "SELECT task_id FROM taskbell.outbox")
    assert len(entries) == (status == "PENDING")


@pytest.mark.parametrize(
    ("statement", "parameters", "status"),
    [
        (HOT, completed, "COMPLETED"),
        (SETTLE, settled_as("completed"), "COMPLETED"),
        (SETTLE, settled_as("fail"), "CANCELLED"),
        (SETTLE, settled_as("retry"), "CANCELLED"),
    ],
    ids=["complete", "complete with result", "fail", "retry"],
)
async def test_a_settlement_that_waits_for_a_cancel_decides_and_only_completion_beats_it(
    database_url: str, worker: Hands, statement: Statement, parameters: Parameters, status: str
) -> None:
    (task_id,) = make_tasks(database_url)
    await worker.claim()
    async with session(database_url) as canceller:
        (asked,) = await canceller.run(CANCEL, task_ids=[task_id], actor="me")
        settling_ = asyncio.create_task(worker.connection.run(statement, **parameters(task_id)))
        await canceller.blocks_somebody()
        await canceller.commit()
        assert len(await settling_) == 1

    assert asked.answer == "requested"
    assert task_of(database_url, task_id).status == status


async def test_a_claim_passes_by_a_task_that_is_just_being_cancelled(
    database_url: str, worker: Hands
) -> None:
    cancelled, other = make_tasks(database_url, 2)
    async with session(database_url) as canceller:
        (asked,) = await canceller.run(CANCEL, task_ids=[cancelled], actor="me")
        taken = await worker.claim()
        await canceller.commit()

    assert asked.answer == "cancelled"
    assert [row.task_id for row in taken] == [other]
    assert await worker.claim_ids([cancelled]) == []


async def test_a_request_outlives_the_worker_it_was_made_to(
    database_url: str, worker: Hands, connection: DedicatedConnection
) -> None:
    (task_id,) = make_tasks(database_url)
    await worker.claim()
    await tasks.cancel_many(connection, [task_id], actor="me")
    rows(database_url, "UPDATE taskbell.lease SET expires_at = clock_timestamp()")

    reaped = await Reap().run_once(connection)

    assert reaped == LeasesReaped(retried=0, dead=0, cancelled=1)
    assert task_of(database_url, task_id).status == "CANCELLED"
