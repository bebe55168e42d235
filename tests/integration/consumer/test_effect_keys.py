"""Business keys, follow-ups and other databases: what commits with an effect, and how often."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from integration.consumer.ledger import WRITE, WRITE_PLAIN, entries, make_ledger, take_away
from support.factories import make_tasks
from support.waiting import wait_until
from support.workers import Reports, rows, task_of, working
from taskbell.consumer import Consumer, Context, Fixed
from taskbell.consumer.reports import IgnoredAfterEffect
from taskbell.shared import migration
from taskbell.shared.events import LeaseLost

AT_ONCE = Fixed(0)


@pytest.fixture
def other_url(empty_database_url: str) -> str:
    """A database of somebody else's, with a ledger and the effect table alone."""
    for _ in range(2):  # a second time changes nothing
        migration.install_effects(empty_database_url)
    make_ledger(empty_database_url)
    return empty_database_url


async def test_a_key_seen_before_completes_the_task_without_a_second_effect(
    database_url: str, reports: Reports
) -> None:
    make_ledger(database_url)
    app, went_on = Consumer(), list[object]()

    @app.handler("async")
    async def in_session(context: Context, _payload: object) -> None:
        async with context.effect(key="order-17", scope="orders") as session:
            await session.execute(WRITE, {"entry": "async"})
        went_on.append(context.task_id)

    @app.handler("thread")
    def in_thread(context: Context, _payload: object) -> None:
        with context.effect(key="order-17", scope="orders", driver="psycopg") as connection:
            connection.execute(WRITE_PLAIN, ("thread",))
        went_on.append(context.task_id)

    @app.handler("scope")
    def another_scope(context: Context, _payload: object) -> None:
        with context.effect(key="order-17") as session:
            session.execute(WRITE, {"entry": "scope"})
        went_on.append(context.task_id)

    async with working(app, database_url, reports):
        for name in ("async", "thread", "async", "scope"):
            (task_id,) = make_tasks(database_url, type=name)
            await reports.settled(task_id)

    assert entries(database_url) == ["async", "scope"]
    assert len(went_on) == 2
    marks = rows(database_url, "SELECT scope FROM taskbell.effect ORDER BY scope")
    assert [mark.scope for mark in marks] == ["orders", "scope"]


async def test_of_two_overlapping_effects_with_one_key_the_second_waits_and_sees_the_first(
    database_url: str, reports: Reports
) -> None:
    make_ledger(database_url)
    app, inside, go_on = Consumer(), asyncio.Event(), asyncio.Event()

    @app.handler("t")
    async def handle(context: Context, _payload: object) -> None:
        async with context.effect(key="k") as session:
            await session.execute(WRITE, {"entry": str(context.task_id)})
            inside.set()
            await go_on.wait()

    make_tasks(database_url, 2, type="t")
    async with working(app, database_url, reports):
        await inside.wait()
        await asyncio.to_thread(wait_until, "the second waits", lambda: rows(database_url, WAITING))
        go_on.set()
        ids = [row.id for row in rows(database_url, "SELECT id FROM taskbell.task")]
        await reports.settled(*ids)

    assert len(entries(database_url)) == 1


WAITING = """
SELECT 1 FROM pg_stat_activity
WHERE wait_event = 'transactionid' AND datname = current_database()
"""


async def test_an_overlapping_effect_of_an_older_attempt_rolls_back_and_frees_its_key(
    database_url: str, reports: Reports
) -> None:
    make_ledger(database_url)
    app, starts = Consumer(), list[int]()

    @app.handler("t", lease=2)
    async def handle(context: Context, _payload: object) -> None:
        starts.append(context.attempt)
        async with context.effect(key="k") as session:
            await session.execute(WRITE, {"entry": str(context.attempt)})
            if context.attempt == 1:  # reaped between the begin and the settlement
                rows(database_url, REAPED)

    (task_id,) = make_tasks(database_url, type="t")
    async with working(app, database_url, reports):
        await reports.settled(task_id)

    assert starts == [1, 2]
    assert entries(database_url) == ["2"]
    assert [each.noticed_by for each in reports.of(LeaseLost)] == ["effect"]


REAPED = """
WITH gone AS (DELETE FROM taskbell.lease RETURNING task_id),
t AS (UPDATE taskbell.task SET status = 'RETRYING' FROM gone WHERE id = task_id
      RETURNING id, queue, priority)
INSERT INTO taskbell.outbox (task_id, queue, priority, publish_at)
SELECT id, queue, priority, clock_timestamp() FROM t
"""


async def test_follow_ups_commit_with_the_effect_or_not_at_all(
    database_url: str, reports: Reports
) -> None:
    make_ledger(database_url)
    app = Consumer()

    @app.handler("async", retry=AT_ONCE)
    async def in_session(context: Context, _payload: object) -> None:
        async with context.effect() as session:
            await context.enqueue(session, "follow", {"from": "async"}, queue="later")
            if context.attempt == 1:
                raise ValueError("not yet")

    @app.handler("thread", retry=AT_ONCE)
    def in_thread(context: Context, _payload: object) -> None:
        with context.effect(driver="psycopg") as connection:
            context.enqueue(connection, "follow", {"from": "thread"}, queue="later")
            if context.attempt == 1:
                raise ValueError("not yet")

    ids = [make_tasks(database_url, type=name)[0] for name in ("async", "thread")]
    rows(database_url, "UPDATE taskbell.task SET owner_id = 'ada', correlation_id = 'c-1'")
    async with working(app, database_url, reports):
        await reports.settled(*ids)

    followers = rows(database_url, "SELECT * FROM taskbell.task WHERE type = 'follow'")
    assert sorted(each.payload["from"] for each in followers) == ["async", "thread"]
    assert {(each.owner_id, each.correlation_id) for each in followers} == {("ada", "c-1")}


async def test_an_effect_in_another_database_happens_once_by_its_key(
    database_url: str, other_url: str, reports: Reports
) -> None:
    app, starts = Consumer(), list[int]()
    async_engine, engine = create_async_engine(other_url), create_engine(other_url)

    @app.handler("async", retry=AT_ONCE)
    async def through_async(context: Context, _payload: object) -> None:
        starts.append(context.attempt)
        effect = context.effect(engine=async_engine, key="a")
        effect.result = {"written": True}
        async with effect as session:
            await session.execute(WRITE, {"entry": f"async {context.attempt}"})
            if context.attempt == 1:
                raise ValueError("not yet")
        if context.attempt == 2:  # committed there, and settled by nobody
            take_away(database_url, context.task_id)
            rows(database_url, "UPDATE taskbell.lease SET expires_at = clock_timestamp()")

    @app.handler("thread")
    def through_thread(context: Context, _payload: object) -> None:
        with context.effect(engine=engine, key="b") as session:
            session.execute(WRITE, {"entry": "thread"})
        raise ValueError("too late to fail")

    ids = [make_tasks(database_url, type=name)[0] for name in ("async", "thread")]
    async with working(app, database_url, reports):
        await reports.settled(*ids)
    await async_engine.dispose()
    engine.dispose()

    assert sorted(entries(other_url)) == ["async 2", "thread"]
    assert len(starts) == 3
    assert [each.error for each in reports.of(IgnoredAfterEffect)] == ["too late to fail"]
    assert task_of(database_url, ids[1]).status == "COMPLETED"


async def test_a_result_set_on_the_effect_is_kept_and_a_returned_one_reported(
    database_url: str, reports: Reports
) -> None:
    app = Consumer()

    @app.handler("t")
    async def handle(context: Context, _payload: object) -> Any:
        effect = context.effect()
        async with effect:
            effect.result = {"total": 3}
        return "too late"

    (task_id,) = make_tasks(database_url, type="t")
    async with working(app, database_url, reports):
        await reports.settled(task_id)

    assert task_of(database_url, task_id).result == {"total": 3}
    assert "set effect.result" in reports.of(IgnoredAfterEffect)[0].error
