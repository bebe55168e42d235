"""Whatever the caller set up for their own statements does not disturb ours, nor ours theirs."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row, scalar_row
from sqlalchemy import NullPool, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from integration.producer.desks import Rows, open_desk
from support.proxy import Proxy
from taskbell.producer import AsyncProducer, Enqueued, NewTask, Producer
from taskbell.shared.database import conninfo
from taskbell.shared.statements.upkeep import PRUNE_TASKS

Committed = Callable[[str], Rows]
TASKS = [NewTask("t"), NewTask("t", idempotency_key="k")]


@pytest.mark.parametrize(
    "habits",
    [
        {"row_factory": dict_row},
        {"row_factory": scalar_row},
        {"cursor_factory": psycopg.ClientCursor},
        {"cursor_factory": psycopg.RawCursor},
        {"prepare_threshold": None},
        {"prepare_threshold": 0},
        {"autocommit": True},
    ],
)
def test_a_psycopg_connection_may_have_any_habits(
    database_url: str, committed: Committed, habits: dict[str, Any]
) -> None:
    with psycopg.connect(conninfo(database_url), **habits) as connection:
        for _ in range(3):
            assert Producer().enqueue(connection, "t").created
            assert len(Producer().enqueue_many(connection, TASKS)) == 2

    assert committed("SELECT count(*) FROM taskbell.task") == [(7,)]


def test_on_autocommit_each_statement_is_committed_by_itself(
    database_url: str, committed: Committed
) -> None:
    with psycopg.connect(conninfo(database_url), autocommit=True) as connection:
        Producer().enqueue(connection, "t")

        assert committed("SELECT type FROM taskbell.task") == [("t",)]


def test_a_pipeline_may_be_open(database_url: str, committed: Committed) -> None:
    with psycopg.connect(conninfo(database_url)) as connection, connection.pipeline():
        Producer().enqueue(connection, "t")
        Producer().enqueue_many(connection, TASKS)

    assert committed("SELECT count(*) FROM taskbell.task") == [(3,)]


@pytest.mark.parametrize("habits", [{"stream_results": True}, {"yield_per": 10}])
async def test_server_side_cursors_may_be_the_engines_habit(
    database_url: str, committed: Committed, habits: dict[str, Any]
) -> None:
    engine = create_engine(database_url, poolclass=NullPool).execution_options(**habits)
    with Session(engine) as session, session.begin():
        Producer().enqueue(session, "t")
        Producer().enqueue_many(session, TASKS)
    async_engine = create_async_engine(database_url, poolclass=NullPool).execution_options(**habits)
    async with async_engine.begin() as connection:
        await AsyncProducer().enqueue(connection, "t")

    assert committed("SELECT count(*) FROM taskbell.task") == [(4,)]


@pytest.mark.parametrize("kind", ["scoped_session", "async_scoped_session"])
async def test_scoped_sessions_are_sessions(
    kind: str, database_url: str, committed: Committed
) -> None:
    async with open_desk(kind, database_url) as desk:
        await desk.enqueue("t")
        await desk.enqueue_many(TASKS)
        await desk.commit()

    assert committed("SELECT count(*) FROM taskbell.task") == [(3,)]


def test_what_sqlalchemy_says_about_a_failure_does_not_show_the_payload(
    database_url: str, observer: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    engine = create_engine(database_url, poolclass=NullPool)
    caplog.set_level("INFO", logger="sqlalchemy.engine")
    observer.execute("ALTER TABLE taskbell.task RENAME TO elsewhere")

    for tasks in ([NewTask("t", "s3cr3t")], [NewTask("t", "s3cr3t")] * 3):
        with Session(engine) as session, pytest.raises(DBAPIError) as failure:
            Producer().enqueue_many(session, tasks)
        assert "s3cr3t" not in str(failure.value)
    with Session(engine) as session, pytest.raises(DBAPIError) as failure:
        Producer().enqueue(session, "t", "s3cr3t")

    assert "s3cr3t" not in str(failure.value)
    assert "INSERT INTO taskbell.task" in caplog.text
    assert "s3cr3t" not in caplog.text


async def test_a_commit_whose_answer_was_lost_is_repeated_safely(
    database_url: str, committed: Committed
) -> None:
    async with Proxy.before(database_url) as proxy:
        connection = await psycopg.AsyncConnection.connect(conninfo(proxy.through(database_url)))
        lost = await AsyncProducer().enqueue(connection, "t", 1, idempotency_key="k")
        proxy.lose_reply(b"COMMIT")
        with pytest.raises(psycopg.OperationalError):
            await connection.commit()
    async with await psycopg.AsyncConnection.connect(conninfo(database_url)) as connection:
        found = await AsyncProducer().enqueue(connection, "t", 1, idempotency_key="k")

    assert found == Enqueued(lost.task_id, created=False)
    assert committed("SELECT id FROM taskbell.task") == [(found.task_id,)]


def test_a_key_lives_as_long_as_its_task(
    database_url: str, observer: psycopg.Connection[Any]
) -> None:
    prune = {"after": "00000000-0000-0000-0000-000000000000", "keep": 0, "batch": 10}
    producer = Producer()
    with psycopg.connect(conninfo(database_url), autocommit=True) as connection:
        first = producer.enqueue(connection, "t", 1, idempotency_key="k")
        observer.execute("DELETE FROM taskbell.outbox")
        observer.execute(PRUNE_TASKS.for_psycopg, prune)
        unfinished = producer.enqueue(connection, "t", 1, idempotency_key="k")
        observer.execute(
            "UPDATE taskbell.task SET status = 'COMPLETED', finished_at = clock_timestamp()"
        )
        finished = producer.enqueue(connection, "t", 1, idempotency_key="k")
        observer.execute(PRUNE_TASKS.for_psycopg, prune)
        pruned = producer.enqueue(connection, "t", 2, idempotency_key="k")

    assert unfinished == finished == Enqueued(first.task_id, created=False)
    assert pruned.created
