"""A lease is kept while its handler runs, and nobody acts on one that is lost."""

import asyncio
import time
from urllib.parse import urlsplit
from uuid import UUID

import psycopg

from support.factories import make_tasks
from support.proxy import Proxy
from support.workers import Reports, rows, task_of, working
from taskbell.consumer import Consumer, Context, RetryPolicy
from taskbell.shared.database import conninfo
from taskbell.shared.events import DatabaseFound, DatabaseLost, LeaseLost, LoopBlocked, TaskSettled


def proxy_for(url: str) -> Proxy:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return Proxy(parts.hostname, parts.port)


def take_away(url: str, task_id: UUID) -> None:
    """What a reap and the claim of another worker leave behind."""
    rows(
        url,
        "WITH t AS (UPDATE taskbell.task SET attempt_count = attempt_count + 1 WHERE id = %s) "
        "UPDATE taskbell.lease SET worker_id = 'other', attempt = attempt + 1, "
        "expires_at = clock_timestamp() + interval '1 minute' WHERE task_id = %s",
        task_id, task_id,
    )  # fmt: skip


async def test_a_handler_longer_than_its_lease_starts_once(
    database_url: str, reports: Reports
) -> None:
    app, starts = Consumer(), list[int]()

    @app.handler("long", lease=1)
    async def long(context: Context, _payload: object) -> None:
        starts.append(context.attempt)
        await asyncio.sleep(3)

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


async def test_a_worker_cut_off_stops_its_handler_before_another_starts_it(
    database_url: str, reports: Reports
) -> None:
    cut_off, other, ended, begun = Consumer(), Consumer(), list[float](), asyncio.Event()

    @cut_off.handler("t", lease=2)
    async def first(_context: Context, _payload: object) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(time.monotonic())

    @other.handler("t")
    async def second(_context: Context, _payload: object) -> float:
        return time.monotonic()

    (task_id,) = make_tasks(database_url, type="t")
    theirs = Reports()
    async with (
        proxy_for(database_url) as proxy,
        working(cut_off, proxy.through(database_url), reports, grace=0),
    ):
        await begun.wait()
        proxy.refuse()
        proxy.cut()
        async with working(other, database_url, theirs):
            await theirs.settled(task_id)
        await proxy.admit()

    assert [each.noticed_by for each in reports.of(LeaseLost)][:1] == ["watchdog"]
    assert ended[0] < task_of(database_url, task_id).result


async def test_an_outage_longer_than_a_lease_burns_no_try(
    database_url: str, reports: Reports
) -> None:
    app, begun = Consumer(), asyncio.Event()

    @app.handler("t", lease=1)
    async def handle(context: Context, _payload: object) -> None:
        begun.set()
        if context.attempt == 1:
            await asyncio.Event().wait()

    (task_id,) = make_tasks(database_url, type="t", max_attempts=1)
    async with (
        proxy_for(database_url) as proxy,
        working(app, proxy.through(database_url), reports),
    ):
        await begun.wait()
        proxy.refuse()
        proxy.cut()
        await reports.some(LeaseLost)
        await proxy.admit()
        await reports.settled(task_id)

    assert task_of(database_url, task_id).used == 1


async def test_a_blocked_loop_keeps_its_lease_and_its_stack_is_named(
    database_url: str, reports: Reports
) -> None:
    app = Consumer()

    @app.handler("rude", lease=1)
    async def rude(_context: Context, _payload: object) -> None:
        time.sleep(4)  # noqa: ASYNC251 - the point of this test

    (task_id,) = make_tasks(database_url, type="rude")
    async with working(app, database_url, reports):
        await reports.settled(task_id)

    assert task_of(database_url, task_id).attempt_count == 1
    (blocked,) = reports.of(LoopBlocked)
    assert "in rude" in blocked.stack
    assert reports.of(LeaseLost) == []


async def test_a_keeper_whose_connection_broke_beats_on_over_another(
    database_url: str, reports: Reports
) -> None:
    app, begun, go_on = Consumer(), asyncio.Event(), asyncio.Event()

    @app.handler("t", lease=3)
    async def handle(_context: Context, _payload: object) -> None:
        begun.set()
        await go_on.wait()

    (task_id,) = make_tasks(database_url, type="t")
    async with working(app, database_url, reports):
        await begun.wait()
        for _ in range(2):
            known = len(reports.of(DatabaseFound))
            rows(
                database_url,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'taskbell keeper' AND datname = current_database()",
            )
            await reports.some(
                DatabaseFound, lambda each: each.purpose == "keeper", count=known or 1
            )
        go_on.set()
        await reports.settled(task_id)

    assert any(each.purpose == "keeper" for each in reports.of(DatabaseLost))
    assert task_of(database_url, task_id).attempt_count == 1


async def test_a_settlement_whose_answer_was_lost_resolves_to_the_truth(
    database_url: str, reports: Reports
) -> None:
    app = Consumer()

    @app.handler("plain")
    async def plain(_context: Context, _payload: object) -> None:
        return

    @app.handler("failing", retry=RetryPolicy(delay=3600))
    async def failing(_context: Context, _payload: object) -> None:
        raise ValueError("no")

    async with proxy_for(database_url) as proxy:
        for kind, status, sent in (
            ("plain", "COMPLETED", b"SET status = 'COMPLETED', finished_at"),
            ("failing", "RETRYING", b"INSERT INTO taskbell.dead_letter"),
        ):
            proxy.lose_reply(sent)
            (task_id,) = make_tasks(database_url, type=kind)
            async with working(app, proxy.through(database_url), reports):
                await reports.settled(task_id, status=status)
            assert proxy.reply_lost.is_set()
            proxy.reply_lost.clear()
            assert task_of(database_url, task_id).used == 1

    assert reports.of(LeaseLost) == []


async def test_a_claim_whose_answer_was_lost_is_taken_up_and_runs_once(
    database_url: str, reports: Reports
) -> None:
    app, attempts = Consumer(), list[int]()

    @app.handler("t")
    async def handle(context: Context, _payload: object) -> None:
        attempts.append(context.attempt)

    (task_id,) = make_tasks(database_url, type="t", max_attempts=1)
    async with proxy_for(database_url) as proxy:
        proxy.lose_reply(b"INSERT INTO taskbell.lease")
        async with working(app, proxy.through(database_url), reports):
            await reports.settled(task_id)
        assert proxy.reply_lost.is_set()

    assert attempts == [1]


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


async def test_a_statement_timeout_on_the_role_burns_no_try(
    database_url: str, reports: Reports
) -> None:
    app, begun = Consumer(), asyncio.Event()
    name = urlsplit(database_url).path.lstrip("/")
    rows(database_url, f'ALTER DATABASE "{name}" SET statement_timeout = 200')

    @app.handler("t")
    async def handle(_context: Context, _payload: object) -> str:
        begun.set()
        return "done"

    (task_id,) = make_tasks(database_url, type="t", max_attempts=1)
    with psycopg.connect(conninfo(database_url)) as blocker:
        blocker.execute("LOCK TABLE taskbell.task IN EXCLUSIVE MODE")
        async with working(app, database_url, reports):
            await reports.some(DatabaseLost, lambda each: each.purpose == "claim")
            blocker.rollback()
            await begun.wait()
            blocker.execute("LOCK TABLE taskbell.lease IN ACCESS EXCLUSIVE MODE")
            lost = reports.of(DatabaseLost)
            await reports.some(DatabaseLost, count=len(lost) + 1)
            blocker.rollback()
            await reports.settled(task_id)

    assert task_of(database_url, task_id).used == 1
