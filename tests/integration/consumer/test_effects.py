"""An effect commits with the settlement of its task: once for a completed task, or not at all."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine

from integration.consumer.kinds import KINDS, Kind, handle_by, in_connection, in_session
from integration.consumer.ledger import WRITE, WRITE_PLAIN, entries, make_ledger, take_away
from support.factories import make_tasks
from support.workers import Reports, rows, task_of, working
from taskbell.consumer import Consumer, Context, InvalidEffect, LeaseLost
from taskbell.consumer.reports import IgnoredAfterEffect
from taskbell.consumer.transaction import Isolation
from taskbell.shared.database import conninfo
from taskbell.shared.events import LeaseLost as LeaseLostEvent
from taskbell.shared.events import TaskFailed, TaskSettled

# Each line takes longer than a lease of 2 s, and says in which isolation it was written.
SLOW_TRIGGER = """
CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_sleep(3);
    NEW.entry := current_setting('transaction_isolation');
    RETURN NEW;
END $$;
CREATE TRIGGER slow BEFORE INSERT ON public.ledger FOR EACH ROW EXECUTE FUNCTION public.slow();
"""


@pytest.mark.parametrize("kind", KINDS)
async def test_effect_and_settlement_are_one_commit(
    database_url: str, reports: Reports, kind: Kind
) -> None:
    make_ledger(database_url)
    app = Consumer()
    handle_by(app, kind)
    ids = make_tasks(database_url, 3, type="t")

    async with working(app, database_url, reports):
        await reports.settled(*ids)

    assert len(entries(database_url)) == 3
    stamps = rows(
        database_url,
        "SELECT count(DISTINCT t.xmin::text) AS tasks, "
        "count(*) FILTER (WHERE l.line IS NOT NULL) AS both "
        "FROM taskbell.task t LEFT JOIN public.ledger l ON l.xmin::text = t.xmin::text",
    )
    assert (stamps[0].tasks, stamps[0].both) == (3, 3)
    assert len(reports.of(TaskSettled)) == 3
    assert reports.of(LeaseLostEvent) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_an_effect_whose_block_raises_leaves_nothing_behind(
    database_url: str, reports: Reports, kind: Kind
) -> None:
    make_ledger(database_url)
    app = Consumer()

    def fail_at_first(context: Context) -> None:
        if context.attempt == 1:
            raise ValueError("not yet")

    handle_by(app, kind, fail_at_first)
    (task_id,) = make_tasks(database_url, type="t")

    async with working(app, database_url, reports):
        await reports.settled(task_id)

    assert len(entries(database_url)) == 1
    assert [each.error for each in reports.of(TaskFailed)] == ["not yet"]


@pytest.mark.parametrize("kind", KINDS)
async def test_the_effect_of_a_holder_that_lost_its_lease_is_rolled_back(
    database_url: str, reports: Reports, kind: Kind
) -> None:
    make_ledger(database_url)
    app, told = Consumer(), list[BaseException]()

    def lose(context: Context) -> None:
        take_away(database_url, context.task_id)

    def watched(context: Context) -> Any:
        try:
            return kind(context, lose)
        except LeaseLost as error:
            told.append(error)
            raise

    if kind in {in_session, in_connection}:

        @app.handler("t")
        async def handle(context: Context, _payload: object) -> None:
            try:
                await watched(context)
            except LeaseLost as error:
                told.append(error)
                raise

    else:

        @app.handler("t")
        def handle_in_thread(context: Context, _payload: object) -> None:
            watched(context)

    (task_id,) = make_tasks(database_url, type="t")
    async with working(app, database_url, reports):
        (lost,) = await reports.some(LeaseLostEvent)

    assert entries(database_url) == []
    assert (lost.task_id, lost.attempt, lost.noticed_by) == (task_id, 1, "effect")
    assert lost.current_attempt == 2
    (error,) = told
    assert isinstance(error, LeaseLost)
    assert (error.task_id, error.attempt) == (task_id, 1)
    task = task_of(database_url, task_id)
    assert (task.status, task.attempt_count) == ("IN_PROGRESS", 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
async def test_a_stricter_isolation_outlives_heartbeats_in_between(
    database_url: str, reports: Reports, kind: Kind, isolation: Isolation
) -> None:
    make_ledger(database_url)
    rows(database_url, SLOW_TRIGGER)
    app = Consumer()
    handle_by(app, kind, isolation=isolation)
    (task_id,) = make_tasks(database_url, type="t")

    async with working(app, database_url, reports):
        await reports.settled(task_id)

    assert entries(database_url) == [isolation.lower()]
    assert task_of(database_url, task_id).attempt_count == 1
    assert reports.of(LeaseLostEvent) == []


async def test_what_is_committed_by_hand_is_refused_before_it_is(
    database_url: str, reports: Reports
) -> None:
    make_ledger(database_url)
    app = Consumer()

    @app.handler("commit")
    async def commit(context: Context, _payload: object) -> None:
        async with context.effect() as session:
            await session.execute(WRITE, {"entry": "half"})
            await session.commit()

    @app.handler("rollback")
    def rollback(context: Context, _payload: object) -> None:
        with context.effect() as session:
            session.execute(WRITE, {"entry": "half"})
            session.rollback()

    @app.handler("close")
    def close(context: Context, _payload: object) -> None:
        with context.effect() as session:
            session.execute(WRITE, {"entry": "half"})
            session.close()
            session.execute(WRITE, {"entry": "other half"})

    @app.handler("connection")
    async def connection(context: Context, _payload: object) -> None:
        async with context.effect(driver="psycopg") as mine:
            await mine.execute(WRITE_PLAIN, ("half",))
            await mine.commit()

    types = ("commit", "rollback", "close", "connection")
    ids = [make_tasks(database_url, type=name, max_attempts=1)[0] for name in types]
    async with working(app, database_url, reports):
        await reports.settled(*ids, status="FAILED")

    assert entries(database_url) == []
    classes = {each.type: each.error_class for each in reports.of(TaskFailed)}
    assert classes == {
        "commit": "taskbell.InvalidEffect",
        "rollback": "taskbell.InvalidEffect",
        "close": "taskbell.InvalidEffect",
        "connection": "psycopg.ProgrammingError",
    }


async def test_the_handlers_own_engine_and_connection_are_used_and_given_back(
    database_url: str, reports: Reports
) -> None:
    make_ledger(database_url)
    engine = create_async_engine(database_url, isolation_level="AUTOCOMMIT")
    app, levels = Consumer(engine=engine), list[object]()
    mine = psycopg.connect(conninfo(database_url))

    @app.handler("session")
    async def through_session(context: Context, _payload: object) -> None:
        async with context.effect() as session:
            assert session.bind is engine
            levels.append(await session.scalar(text("SHOW transaction_isolation")))
            await session.execute(WRITE, {"entry": "session"})

    @app.handler("connection")
    def through_connection(context: Context, _payload: object) -> None:
        with context.effect(driver="psycopg", connection=mine) as connection:
            assert connection is mine
            connection.execute(WRITE_PLAIN, ("connection",))

    ids = [make_tasks(database_url, type=name)[0] for name in ("session", "connection")]
    async with working(app, database_url, reports):
        await reports.settled(*ids)

    assert sorted(entries(database_url)) == ["connection", "session"]
    assert levels == ["read committed"]
    assert mine.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    assert mine.isolation_level is None
    mine.close()
    await engine.dispose()


async def test_what_cannot_keep_the_promise_is_refused_with_a_reason(
    database_url: str, reports: Reports
) -> None:
    app, problems = Consumer(), list[str]()

    @app.handler("t")
    async def handle(context: Context, _payload: object) -> None:
        wrong: list[Callable[[], Any]] = [
            lambda: context.effect(engine=create_engine(database_url)),
            lambda: context.effect(isolation="READ UNCOMMITTED"),  # type: ignore[call-overload]
            lambda: context.effect(key="x" * 1025),
            lambda: context.effect(key=""),
            lambda: context.effect().__enter__(),
        ]
        for each in wrong:
            with pytest.raises((InvalidEffect, ValueError)) as refused:
                each()
            problems.append(str(refused.value))
        async with context.effect():
            with pytest.raises(InvalidEffect, match="has not ended yet"):
                await context.effect().__aenter__()
        with pytest.raises(InvalidEffect, match="has had its effect"):
            await context.effect().__aenter__()

    (task_id,) = make_tasks(database_url, type="t")
    async with working(app, database_url, reports):
        await reports.settled(task_id)

    assert reports.of(IgnoredAfterEffect) == []
    assert [each[:25] for each in problems] == [
        "in another database only ", "isolation is one of READ ", "key: 1025 bytes of UTF-8,",
        "key: must not be empty", "it would block the event ",
    ]  # fmt: skip
