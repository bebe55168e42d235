"""How an effect ends when its commit is not answered, its handler goes wrong, or somebody cancels.

The truth is the database's: a committed effect is a completed task, whatever the worker saw.
"""

import asyncio

import psycopg
import pytest
from sqlalchemy import NullPool, create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from integration.consumer.ledger import WRITE, WRITE_PLAIN, entries, make_ledger
from support.factories import make_tasks
from support.proxy import Proxy
from support.waiting import wait_until
from support.workers import Reports, rows, task_of, working
from taskbell.consumer import Consumer, Context, Fixed
from taskbell.consumer.reports import IgnoredAfterEffect
from taskbell.shared.database import conninfo
from taskbell.shared.events import LeaseLost, TaskFailed, TaskSettled

AT_ONCE = Fixed(0)
CANCEL = "UPDATE taskbell.lease SET cancel_requested = true"


def writing(colour: str, starts: list[int], url: str) -> Consumer:
    """An application whose handler writes one line by an effect over ``url``."""
    app = Consumer()
    if colour == "AsyncSession":
        app = Consumer(engine=create_async_engine(url, poolclass=NullPool))

        @app.handler("t", retry=AT_ONCE)
        async def in_session(context: Context, _payload: object) -> None:
            starts.append(context.attempt)
            async with context.effect() as session:
                await session.execute(WRITE, {"entry": "once"})

    elif colour == "AsyncConnection":

        @app.handler("t", retry=AT_ONCE)
        async def in_connection(context: Context, _payload: object) -> None:
            starts.append(context.attempt)
            mine = await psycopg.AsyncConnection.connect(conninfo(url))
            async with mine, context.effect(driver="psycopg", connection=mine):
                await mine.execute(WRITE_PLAIN, ("once",))

    elif colour == "Session":
        app = Consumer(engine=create_engine(url, poolclass=NullPool))

        @app.handler("t", retry=AT_ONCE)
        def in_thread(context: Context, _payload: object) -> None:
            starts.append(context.attempt)
            with context.effect() as session:
                session.execute(WRITE, {"entry": "once"})

    else:

        @app.handler("t", retry=AT_ONCE)
        def in_thread_connection(context: Context, _payload: object) -> None:
            starts.append(context.attempt)
            mine = psycopg.connect(conninfo(url))
            with mine, context.effect(driver="psycopg", connection=mine):
                mine.execute(WRITE_PLAIN, ("once",))

    return app


COLOURS = ["AsyncSession", "Session", "AsyncConnection", "Connection"]


@pytest.mark.parametrize("colour", COLOURS)
async def test_a_commit_whose_answer_is_lost_completes_the_task_and_is_no_failure(
    database_url: str, reports: Reports, colour: str
) -> None:
    make_ledger(database_url)
    starts: list[int] = []
    (task_id,) = make_tasks(database_url, type="t", max_attempts=1)

    async with Proxy.before(database_url) as proxy:
        proxy.lose_reply(b"COMMIT\0")  # and not BEGIN … READ COMMITTED
        app = writing(colour, starts, proxy.through(database_url))
        async with working(app, database_url, reports):
            await reports.settled(task_id)
        assert proxy.reply_lost.is_set()

    assert starts == [1]
    assert entries(database_url) == ["once"]
    assert task_of(database_url, task_id).used == 1
    assert [*reports.of(TaskFailed), *reports.of(LeaseLost)] == []
    assert rows(database_url, "SELECT 1 FROM taskbell.failure") == []


@pytest.mark.parametrize("colour", COLOURS)
async def test_a_commit_that_never_arrived_is_repeated_at_no_cost_of_a_try(
    database_url: str, reports: Reports, colour: str
) -> None:
    make_ledger(database_url)
    starts: list[int] = []
    app = writing(colour, starts, database_url)
    # The server ends the connection at the commit, once, before it takes place.
    rows(database_url, BREAK_ONCE)

    (task_id,) = make_tasks(database_url, type="t", max_attempts=1)
    async with working(app, database_url, reports):
        await reports.settled(task_id)

    assert starts == [1, 2]
    assert entries(database_url) == ["once"]
    task = task_of(database_url, task_id)
    assert (task.attempt_count, task.used) == (2, 1)
    assert [*reports.of(TaskFailed), *reports.of(LeaseLost)] == []


BREAK_ONCE = """
CREATE SEQUENCE public.breaks;
CREATE FUNCTION public.break_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('public.breaks') = 1 THEN
        PERFORM pg_terminate_backend(pg_backend_pid());
        PERFORM pg_sleep(5);
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER break_once AFTER INSERT ON public.ledger
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.break_once();
"""


@pytest.mark.parametrize("colour", COLOURS)
async def test_a_worker_that_stops_during_a_commit_leaves_effect_and_task_in_agreement(
    database_url: str, reports: Reports, colour: str
) -> None:
    make_ledger(database_url)
    rows(database_url, SLOW_COMMIT)
    starts: list[int] = []
    app = writing(colour, starts, database_url)

    (task_id,) = make_tasks(database_url, type="t")
    async with working(app, database_url, reports, grace=0) as worker:
        await asyncio.to_thread(wait_until, "it commits", lambda: rows(database_url, COMMITTING))
        assert await worker.stopped()

    task = task_of(database_url, task_id)
    assert (task.status, entries(database_url)) in [("PENDING", []), ("COMPLETED", ["once"])]
    assert task.used == (task.status == "COMPLETED")
    assert reports.of(TaskFailed) == []


SLOW_COMMIT = """
CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_sleep(2);
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON public.ledger
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.slow();
"""
COMMITTING = """
SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()
"""


async def test_a_commit_that_the_server_refuses_is_a_failed_try(
    database_url: str, reports: Reports
) -> None:
    rows(
        database_url,
        "CREATE TABLE public.ledger (line bigserial PRIMARY KEY, entry text NOT NULL, "
        "CONSTRAINT twice UNIQUE (entry) DEFERRABLE INITIALLY DEFERRED)",
    )
    rows(database_url, "INSERT INTO public.ledger (entry) VALUES ('once')")
    starts: list[int] = []
    app = writing("AsyncSession", starts, database_url)
    (task_id,) = make_tasks(database_url, type="t", max_attempts=2)

    async with working(app, database_url, reports):
        await reports.settled(task_id, status="FAILED")

    assert starts == [1, 2]
    assert {each.error_class for each in reports.of(TaskFailed)} == {
        "psycopg.errors.UniqueViolation"
    }
    assert entries(database_url) == ["once"]


async def test_what_a_handler_raises_after_its_effect_is_reported_and_no_failure(
    database_url: str, reports: Reports
) -> None:
    make_ledger(database_url)
    app = Consumer()

    @app.handler("async", lease=3)
    async def in_session(context: Context, _payload: object) -> None:
        async with context.effect() as session:
            await session.execute(WRITE, {"entry": "async"})
        await asyncio.sleep(3.2)  # longer than the lease that is gone
        raise ValueError("too late")

    @app.handler("thread")
    def in_thread(context: Context, _payload: object) -> None:
        with context.effect() as session:
            session.execute(WRITE, {"entry": "thread"})
        raise ValueError("too late")

    ids = [make_tasks(database_url, type=name)[0] for name in ("async", "thread")]
    async with working(app, database_url, reports):
        await reports.settled(*ids)
        await reports.some(IgnoredAfterEffect, count=2)

    assert sorted(entries(database_url)) == ["async", "thread"]
    assert {each.error for each in reports.of(IgnoredAfterEffect)} == {"too late"}
    assert [*reports.of(TaskFailed), *reports.of(LeaseLost)] == []
    assert len(reports.of(TaskSettled)) == 2


async def test_a_cancellation_before_the_effect_leaves_none_and_one_after_it_is_too_late(
    database_url: str, reports: Reports
) -> None:
    make_ledger(database_url)
    app, begun = Consumer(), asyncio.Event()

    @app.handler("before", lease=3)
    async def before(context: Context, _payload: object) -> None:
        async with context.effect() as session:
            await session.execute(WRITE, {"entry": "before"})
            rows(database_url, CANCEL)
            await asyncio.Event().wait()

    @app.handler("during", lease=30)
    async def during(context: Context, _payload: object) -> None:
        async with context.effect() as session:
            await session.execute(WRITE, {"entry": "during"})
            rows(database_url, CANCEL)  # no beat is due before the settlement
        begun.set()

    (cancelled,) = make_tasks(database_url, type="before")
    async with working(app, database_url, reports):
        await reports.settled(cancelled, status="CANCELLED")
        (completed,) = make_tasks(database_url, type="during")
        await reports.settled(completed)

    assert entries(database_url) == ["during"]
    assert task_of(database_url, cancelled).status == "CANCELLED"


async def test_a_conflict_with_another_transaction_costs_no_try(
    database_url: str, reports: Reports
) -> None:
    make_ledger(database_url)
    rows(database_url, "INSERT INTO public.ledger (entry) VALUES ('old')")
    app = Consumer()

    @app.handler("t")
    async def handle(context: Context, _payload: object) -> None:
        async with context.effect(driver="psycopg", isolation="SERIALIZABLE") as connection:
            await connection.execute("SELECT entry FROM public.ledger")
            if context.attempt == 1:
                rows(database_url, "UPDATE public.ledger SET entry = 'theirs'")
            await connection.execute("UPDATE public.ledger SET entry = entry || ' and ours'")

    (task_id,) = make_tasks(database_url, type="t", max_attempts=1)
    async with working(app, database_url, reports):
        await reports.settled(task_id)

    assert entries(database_url) == ["theirs and ours"]
    assert task_of(database_url, task_id).used == 1
