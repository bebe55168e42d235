"""A lease is kept while its handler runs, and nobody acts on one that is lost."""

import asyncio
import time

from integration.consumer.ledger import take_away
from support.factories import make_tasks
from support.workers import Reports, rows, task_of, working
from taskbell.consumer import Consumer, Context
from taskbell.shared.events import LeaseLost, LoopBlocked, TaskSettled


async def test_a_handler_longer_than_its_lease_starts_once(
    database_url: str, reports: Reports
) -> None:
    app, starts = Consumer(), list[int]()

    @app.handler("long", lease=3)
    async def long(context: Context, _payload: object) -> None:
        starts.append(context.attempt)
        await asyncio.sleep(3.5)

    (task_id,) = make_tasks(database_url, type="long")
    async with working(app, database_url, reports):
        await reports.settled(task_id)

    assert starts == [1]
    assert reports.of(LeaseLost) == []


async def test_a_lease_taken_by_another_stops_the_handler_and_nothing_of_it_is_written(
    database_url: str, reports: Reports
) -> None:
    app, stopped = Consumer(), asyncio.Event()

    @app.handler("held", lease=1)
    async def held(context: Context, _payload: object) -> None:
        take_away(database_url, context.task_id)
        try:
            await asyncio.Event().wait()
        finally:
            assert context.lost
            stopped.set()

    (task_id,) = make_tasks(database_url, type="held")
    async with working(app, database_url, reports) as worker:
        (lost,) = await reports.some(LeaseLost)
        await stopped.wait()
        assert await worker.stopped()

    assert (lost.task_id, lost.noticed_by) == (task_id, "heartbeat")
    task = task_of(database_url, task_id)
    assert (task.status, task.attempt_count) == ("IN_PROGRESS", 2)
    (lease,) = rows(database_url, "SELECT worker_id FROM taskbell.lease")
    assert lease.worker_id == "other"


async def test_the_settlement_of_a_lost_lease_is_refused(
    database_url: str, reports: Reports
) -> None:
    app = Consumer()

    @app.handler("quick")
    async def quick(context: Context, _payload: object) -> str:
        take_away(database_url, context.task_id)
        return "stale"

    (task_id,) = make_tasks(database_url, type="quick")
    async with working(app, database_url, reports):
        (lost,) = await reports.some(LeaseLost)

    assert (lost.task_id, lost.noticed_by) == (task_id, "settlement")
    task = task_of(database_url, task_id)
    assert (task.status, task.result) == ("IN_PROGRESS", None)
    assert reports.of(TaskSettled) == []


async def test_a_blocked_loop_keeps_its_lease_and_its_stack_is_named(
    database_url: str, reports: Reports
) -> None:
    app = Consumer()

    @app.handler("rude", lease=2)
    async def rude(_context: Context, _payload: object) -> None:
        time.sleep(8)  # noqa: ASYNC251 - the point of this test

    (task_id,) = make_tasks(database_url, type="rude")
    async with working(app, database_url, reports):
        await reports.settled(task_id)

    assert task_of(database_url, task_id).attempt_count == 1
    (blocked,) = reports.of(LoopBlocked)
    assert "in rude" in blocked.stack
    assert reports.of(LeaseLost) == []


async def test_a_claim_whose_worker_died_with_its_answer_expires(
    database_url: str, reports: Reports
) -> None:
    app = Consumer()

    @app.handler("t", lease=1)
    async def handle(context: Context, _payload: object) -> int:
        return context.attempt

    (task_id,) = make_tasks(database_url, type="t")
    rows(
        database_url,
        "WITH o AS (DELETE FROM taskbell.outbox), t AS (UPDATE taskbell.task SET "
        "status = 'IN_PROGRESS', attempt_count = 1 RETURNING id, queue) "
        "INSERT INTO taskbell.lease (task_id, queue, worker_id, attempt, expires_at) "
        "SELECT id, queue, 'gone', 1, clock_timestamp() FROM t",
    )
    async with working(app, database_url, reports):
        await reports.settled(task_id)

    assert task_of(database_url, task_id).result == 2
    (failure,) = rows(database_url, "SELECT * FROM taskbell.failure")
    assert (failure.outcome, failure.worker_id) == ("lost", "gone")
