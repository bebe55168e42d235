"""The claim takes what is due, never more than asked, each task once."""

import itertools
import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import namedtuple_row

from support.factories import make_tasks
from support.workers import rows
from taskbell.shared.database import Database, DedicatedConnection, conninfo
from taskbell.shared.floors import Floors
from taskbell.shared.limits import LEVELS
from taskbell.shared.statement import Statement
from taskbell.shared.statements import claim

EPOCH = "1970-01-01T00:00:00Z"
SWITCHES = (
    "hashjoin", "mergejoin", "nestloop", "material", "sort", "indexscan", "bitmapscan", "seqscan",
)  # fmt: skip


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(
        conninfo(database_url), autocommit=True, row_factory=namedtuple_row
    ) as opened:
        yield opened


def by_ids(connection: psycopg.Connection[Any], ids: list[UUID], limit: int) -> list[Any]:
    return claimed(connection, claim.BY_IDS, task_ids=ids, limit=limit)


def by_queue(connection: psycopg.Connection[Any], limit: int, queue: str = "default") -> list[Any]:
    floors = [EPOCH] * len(LEVELS)
    return claimed(
        connection, claim.BY_QUEUE, queue=queue, levels=list(LEVELS), floors=floors, limit=limit
    )


def claimed(
    connection: psycopg.Connection[Any], statement: Statement, **parameters: object
) -> list[Any]:
    common = {"worker_id": "w", "lease_by_type": json.dumps({"noop": 10}), "lease": 30.0}
    cursor = connection.execute(statement.for_psycopg, {**common, **parameters}, prepare=True)
    return cursor.fetchall()


def test_no_plan_claims_more_than_asked_or_locks_what_it_does_not_claim(
    database_url: str, connection: psycopg.Connection[Any]
) -> None:
    ids = make_tasks(database_url, 100) + make_tasks(database_url, 100, priority=9)
    combinations = itertools.product(
        (False, True), ("force_generic_plan", "force_custom_plan"), ("none", *SWITCHES)
    )
    for analysed, mode, switch in combinations:
        if analysed:
            connection.execute("ANALYZE taskbell.task, taskbell.outbox, taskbell.lease")
        connection.execute(f"SET plan_cache_mode = {mode}".encode())
        if switch != "none":
            connection.execute(f"SET enable_{switch} = off".encode())
        for door in ("ids", "queue"):
            with connection.transaction(force_rollback=True):
                taken = by_ids(connection, ids, 10) if door == "ids" else by_queue(connection, 10)
                free = rows(
                    database_url, "SELECT task_id FROM taskbell.outbox FOR UPDATE SKIP LOCKED"
                )
                combination = (analysed, mode, switch, door)
                assert (len({row.task_id for row in taken}), len(taken)) == (10, 10), combination
                assert len(free) == 190, combination
        connection.execute("RESET ALL")
        connection.execute("DEALLOCATE ALL")


def test_the_poll_takes_higher_priorities_first_and_then_what_was_due_first(
    database_url: str, connection: psycopg.Connection[Any]
) -> None:
    (low,) = make_tasks(database_url, priority=1)
    first, second = make_tasks(database_url, priority=5)[0], make_tasks(database_url, priority=5)[0]
    (high,) = make_tasks(database_url, priority=9)

    taken = [by_queue(connection, 1)[0].task_id for _ in range(4)]

    assert taken == [high, first, second, low]


@pytest.mark.parametrize("pause", ["paused = true", "paused_until = now() + interval '1 hour'"])
def test_a_paused_queue_is_not_claimed_by_either_door(
    database_url: str, connection: psycopg.Connection[Any], pause: str
) -> None:
    ids = make_tasks(database_url, 3)
    connection.execute("INSERT INTO taskbell.queue (name) VALUES ('default')")
    connection.execute(f"UPDATE taskbell.queue SET {pause}".encode())

    assert by_ids(connection, ids, 10) == by_queue(connection, 10) == []

    connection.execute("UPDATE taskbell.queue SET paused = false, paused_until = now()")
    assert len(by_queue(connection, 10)) == 3


def test_what_is_not_due_is_not_claimed_by_either_door(
    database_url: str, connection: psycopg.Connection[Any]
) -> None:
    ids = make_tasks(database_url, 3, delay=3600)

    assert by_ids(connection, ids, 10) == by_queue(connection, 10) == []


def test_what_another_session_locks_is_left_out_and_the_rest_flows(
    database_url: str, connection: psycopg.Connection[Any]
) -> None:
    ids = make_tasks(database_url, 3)
    with psycopg.connect(conninfo(database_url)) as reader:
        reader.execute(
            "SELECT task_id FROM taskbell.outbox WHERE task_id = %s FOR KEY SHARE", [ids[0]]
        )
        assert {row.task_id for row in by_queue(connection, 10)} == set(ids[1:])
        reader.rollback()
    assert [row.task_id for row in by_queue(connection, 10)] == [ids[0]]


def test_two_claims_of_one_partition_take_one_task(
    database_url: str, connection: psycopg.Connection[Any]
) -> None:
    ids = make_tasks(database_url, 2, partition_key="k")
    # Two heads: what must not be, and must do no harm.
    connection.execute("UPDATE taskbell.outbox SET parked = false")
    with psycopg.connect(conninfo(database_url), row_factory=namedtuple_row) as other:
        first = by_ids(other, ids, 10)
        assert [row.task_id for row in first] == [ids[0]]
        assert by_ids(connection, [ids[0]], 10) == []
        other.commit()
    assert by_ids(connection, ids, 10) == []
    assert len(rows(database_url, "SELECT task_id FROM taskbell.outbox")) == 1


def test_a_lease_lasts_as_long_as_its_type_says_from_the_instant_of_the_claim(
    database_url: str, connection: psycopg.Connection[Any]
) -> None:
    make_tasks(database_url, type="noop")
    make_tasks(database_url, type="other")
    with connection.transaction():  # a stale now() would make the lease too short
        connection.execute("SELECT pg_sleep(1.5)")
        by_queue(connection, 10)

    left = rows(
        database_url,
        "SELECT t.type, CAST(extract(epoch FROM l.expires_at - clock_timestamp()) AS float8) "
        "AS seconds FROM taskbell.lease l JOIN taskbell.task t ON t.id = l.task_id "
        "ORDER BY t.type",
    )
    noop, other = left
    assert 9 < noop.seconds <= 10
    assert 29 < other.seconds <= 30


def test_an_entry_without_a_live_task_is_removed_and_its_neighbours_are_claimed(
    database_url: str, connection: psycopg.Connection[Any]
) -> None:
    gone, final, fine = make_tasks(database_url, 3)
    connection.execute("DELETE FROM taskbell.task WHERE id = %s", [gone])
    connection.execute(
        "UPDATE taskbell.task SET status = 'COMPLETED', finished_at = now() WHERE id = %s", [final]
    )

    assert [row.task_id for row in by_queue(connection, 10)] == [fine]
    assert rows(database_url, "SELECT task_id FROM taskbell.outbox") == []


async def test_a_task_that_comes_while_only_later_ones_wait_is_claimed_at_once(
    database_url: str, connection: psycopg.Connection[Any]
) -> None:
    make_tasks(database_url, delay=3600)
    dedicated = DedicatedConnection(Database(database_url), "test")
    floors = await Floors().of("default", dedicated)
    await dedicated.close()
    (now,) = make_tasks(database_url)

    taken = claimed(
        connection, claim.BY_QUEUE, queue="default", levels=list(LEVELS), floors=floors, limit=10
    )

    assert [row.task_id for row in taken] == [now]
