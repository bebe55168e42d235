"""The ladder down: nothing is claimed, handlers finish or are released, and the worker ends."""

import asyncio
import threading

import pytest

from integration.consumer.applications import Gate, gated
from support.factories import make_tasks
from support.workers import Reports, rows, task_of, working
from taskbell.consumer import Consumer, Context
from taskbell.shared.events import LeaseLost


async def test_a_handler_that_ends_within_the_grace_completes_and_nothing_new_begins(
    database_url: str, reports: Reports
) -> None:
    app, gate = gated()

    (task_id,) = make_tasks(database_url, type="t")
    async with working(app, database_url, reports, grace=30) as worker:
        await gate.begun.wait()
        worker.shutdown.ask()
        (late,) = make_tasks(database_url, type="t")
        gate.go_on.set()
        assert await worker.ended()

    assert task_of(database_url, task_id).status == "COMPLETED"
    assert (task_of(database_url, late).status, task_of(database_url, late).used) == ("PENDING", 0)
    assert rows(database_url, "SELECT listener_id FROM taskbell.bell") == []
    assert rows(database_url, "SELECT worker_id FROM taskbell.worker") == []


@pytest.mark.parametrize("cleanup", ["lets it pass", "fails"])
async def test_after_the_grace_the_rest_is_released_and_burns_no_try(
    database_url: str, reports: Reports, cleanup: str
) -> None:
    app, gate = Consumer(), Gate()

    @app.handler("t")
    async def handle(context: Context, _payload: object) -> None:
        try:
            await gate.passed()
        except asyncio.CancelledError:
            assert context.lost
            if cleanup == "fails":
                raise ValueError("cleaning up failed") from None
            raise

    ids = make_tasks(database_url, 5, type="t")
    async with working(app, database_url, reports, grace=0.2) as worker:
        await gate.begun.wait()
        assert await worker.stopped()

    assert {(task_of(database_url, each).status, task_of(database_url, each).used)
            for each in ids} == {("PENDING", 0)}  # fmt: skip
    due = rows(database_url, "SELECT task_id FROM taskbell.outbox WHERE publish_at <= now()")
    assert len(due) == 5


async def test_asked_twice_it_releases_now(database_url: str, reports: Reports) -> None:
    app, gate = gated()

    (task_id,) = make_tasks(database_url, type="t")
    async with working(app, database_url, reports, grace=3600) as worker:
        await gate.begun.wait()
        worker.shutdown.ask()
        assert await worker.stopped()

    assert task_of(database_url, task_id).status == "PENDING"


async def test_a_thread_that_ignores_the_stop_is_released_and_fenced(
    database_url: str, reports: Reports
) -> None:
    stubborn, other, go_on = Consumer(), Consumer(), threading.Event()
    begun, returned = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @stubborn.handler("t")
    def ignore(_context: Context, _payload: object) -> str:
        loop.call_soon_threadsafe(begun.set)
        go_on.wait(30)
        returned.set()
        return "stale"

    @other.handler("t")
    async def handle(context: Context, _payload: object) -> int:
        return context.attempt

    (task_id,) = make_tasks(database_url, type="t", max_attempts=1)
    async with working(stubborn, database_url, reports, grace=0.1) as worker:
        await begun.wait()
        assert await worker.stopped()
        assert not returned.is_set()
    async with working(other, database_url, reports):
        await reports.settled(task_id)
        go_on.set()
        assert await asyncio.to_thread(returned.wait, 30)

    task = task_of(database_url, task_id)
    assert (task.status, task.result, task.used) == ("COMPLETED", 2, 1)


async def test_a_handler_that_swallows_its_cancellation_does_not_keep_the_worker(
    database_url: str, reports: Reports
) -> None:
    app, gate = Consumer(), Gate()

    @app.handler("t")
    async def swallow(_context: Context, _payload: object) -> None:
        while not gate.go_on.is_set():
            try:
                await gate.passed()
            except asyncio.CancelledError:
                continue

    (task_id,) = make_tasks(database_url, type="t")
    async with working(app, database_url, reports, grace=0) as worker:
        await gate.begun.wait()
        worker.shutdown.ask()
        assert not await worker.stopped()
        gate.go_on.set()

    assert task_of(database_url, task_id).status == "IN_PROGRESS"  # until its lease expires


async def test_a_lease_claimed_again_by_the_same_worker_ends_the_older_run(
    database_url: str, reports: Reports
) -> None:
    app, begun = Consumer(), asyncio.Event()

    @app.handler("t", lease=60)
    async def handle(context: Context, _payload: object) -> int:
        if context.attempt == 1:
            rows(
                database_url,
                "WITH l AS (DELETE FROM taskbell.lease), t AS (UPDATE taskbell.task "
                "SET status = 'RETRYING') INSERT INTO taskbell.outbox "
                "(task_id, queue, priority, publish_at) "
                "VALUES (%s, 'default', 5, clock_timestamp())",
                context.task_id,
            )
            begun.set()
            await asyncio.Event().wait()
        return context.attempt

    (task_id,) = make_tasks(database_url, type="t")
    async with working(app, database_url, reports):
        await reports.settled(task_id)

    assert [each.noticed_by for each in reports.of(LeaseLost)] == ["claim"]
    assert task_of(database_url, task_id).result == 2


async def test_a_cancellation_asked_for_reaches_the_handler_by_heartbeat(
    database_url: str, reports: Reports
) -> None:
    app = Consumer()

    @app.handler("t", lease=1)
    async def handle(context: Context, _payload: object) -> None:
        rows(database_url, "UPDATE taskbell.lease SET cancel_requested = true")
        try:
            await asyncio.Event().wait()
        finally:
            assert context.cancelled

    (task_id,) = make_tasks(database_url, type="t")
    async with working(app, database_url, reports):
        await reports.settled(task_id, status="CANCELLED")
