"""A key is recorded with the task that is born with it, and with no other."""

from collections.abc import Callable

import psycopg
import pytest

from support.workers import rows
from taskbell.producer import Enqueued, NewTask, Producer, TaskId, new_task_id
from taskbell.shared.database import conninfo

Enqueue = Callable[[psycopg.Connection, list[NewTask]], list[Enqueued]]


def one_by_one(connection: psycopg.Connection, requests: list[NewTask]) -> list[Enqueued]:
    return [Producer().enqueue(connection, request) for request in requests]


def all_at_once(connection: psycopg.Connection, requests: list[NewTask]) -> list[Enqueued]:
    return Producer().enqueue_many(connection, requests)


def keyed(task_id: TaskId | None = None) -> NewTask:
    return NewTask("noop", task_id=task_id, idempotency_key="k")


@pytest.mark.parametrize("enqueue", [one_by_one, all_at_once])
def test_a_key_that_comes_with_a_taken_id_stays_free(database_url: str, enqueue: Enqueue) -> None:
    taken = new_task_id()
    with psycopg.connect(conninfo(database_url)) as connection:
        enqueue(connection, [NewTask("noop", task_id=taken)])

        assert enqueue(connection, [keyed(taken)]) == [Enqueued(taken, created=False)]
        (other,) = enqueue(connection, [keyed()])

    assert other.created
    assert [row.task_id for row in rows(database_url, "SELECT * FROM taskbell.idempotency")] == [
        other.task_id
    ]


def test_in_one_batch_the_key_goes_to_the_request_whose_id_is_free(database_url: str) -> None:
    taken = new_task_id()
    with psycopg.connect(conninfo(database_url)) as connection:
        Producer().enqueue(connection, NewTask("noop", task_id=taken))

        first, second = Producer().enqueue_many(connection, [keyed(taken), keyed()])

    assert second.created
    assert first == Enqueued(second.task_id, created=False)
    assert len(rows(database_url, "SELECT id FROM taskbell.task")) == 2
