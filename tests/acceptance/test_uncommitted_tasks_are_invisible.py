"""A task exists when its producer's transaction commits: not before, and never after a rollback.

The producer is a process of its own. It enqueues, says so, and holds its transaction open until it
is told how to end it.
"""

import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psycopg
import pytest

from taskbell.shared.database import conninfo
from taskbell.shared.statements.claim import BY_IDS

PRODUCER = """
import sys
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session
from taskbell.producer import NewTask, Producer

engine = create_engine(sys.argv[1], connect_args={"application_name": "the shop"})
with Session(engine) as session:
    session.execute(text("INSERT INTO purchase VALUES (17)"))
    enqueued = Producer().enqueue(session, "send_receipt", {"order_id": 17}, idempotency_key="17")
    Producer().enqueue_many(session, [NewTask("update_stock") for _ in range(10)])
    print(enqueued.task_id, flush=True)
    match sys.stdin.readline().strip():
        case "commit":
            session.commit()
        case "rollback":
            session.rollback()
"""
LEFT = """
SELECT (SELECT count(*) FROM purchase), (SELECT count(*) FROM taskbell.task),
       (SELECT count(*) FROM taskbell.outbox), (SELECT count(*) FROM taskbell.idempotency)
"""


@pytest.fixture
def observer(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(conninfo(database_url), autocommit=True) as connection:
        connection.execute("CREATE TABLE purchase (id int PRIMARY KEY)")
        yield connection


@contextmanager
def producer(database_url: str) -> Generator[tuple[subprocess.Popen[str], UUID]]:
    """A process that has enqueued and not yet committed, and the id it was given."""
    with subprocess.Popen(
        [sys.executable, "-c", PRODUCER, database_url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process, UUID(process.stdout.readline().strip())
        if process.poll() is None:
            process.kill()


def claimed(observer: psycopg.Connection[Any], task_id: UUID) -> bool:
    parameters = {
        "task_ids": [task_id],
        "limit": 1,
        "worker_id": "w",
        "lease_by_type": "{}",
        "lease": 30,
    }
    return observer.execute(BY_IDS.for_psycopg, parameters).fetchone() is not None


def left(observer: psycopg.Connection[Any]) -> tuple[int, ...] | None:
    return observer.execute(LEFT).fetchone()


def until_gone(observer: psycopg.Connection[Any]) -> None:
    """Returns once the server has noticed that the producer is no more."""
    gone = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'the shop'"
    while observer.execute(gone).fetchone() != (0,):
        pass


def test_a_task_appears_with_the_business_row_when_its_transaction_commits(
    database_url: str, observer: psycopg.Connection[Any]
) -> None:
    with producer(database_url) as (process, task_id):
        assert left(observer) == (0, 0, 0, 0)
        assert not claimed(observer, task_id)
        process.communicate("commit\n")

    assert left(observer) == (1, 11, 11, 1)
    assert claimed(observer, task_id)


def test_a_transaction_that_rolls_back_never_had_a_task(
    database_url: str, observer: psycopg.Connection[Any]
) -> None:
    with producer(database_url) as (process, task_id):
        assert left(observer) == (0, 0, 0, 0)
        process.communicate("rollback\n")

    assert left(observer) == (0, 0, 0, 0)
    assert not claimed(observer, task_id)


def test_a_producer_that_is_killed_before_it_commits_never_had_a_task(
    database_url: str, observer: psycopg.Connection[Any]
) -> None:
    with producer(database_url) as (process, task_id):
        process.kill()
        process.wait()
        until_gone(observer)

    assert left(observer) == (0, 0, 0, 0)
    assert not claimed(observer, task_id)
