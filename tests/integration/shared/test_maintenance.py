"""What each duty does to the tables, on real ones."""

from typing import Any
from uuid import UUID

import psycopg
import pytest

from support.factories import make_tasks
from support.hands import hands
from support.waiting import wait_until
from support.workers import rows
from taskbell.producer import Producer
from taskbell.shared.database import DedicatedConnection, conninfo
from taskbell.shared.events import PartitionsPromoted, TablesVacuumed, TasksPruned
from taskbell.shared.maintenance import prune
from taskbell.shared.maintenance.measure import Measure
from taskbell.shared.maintenance.promote import Promote, Promoter
from taskbell.shared.maintenance.prune import Prune
from taskbell.shared.maintenance.reap import Reap
from taskbell.shared.maintenance.vacuum import Vacuum, worthwhile
from taskbell.shared.statements import upkeep

AT_ONCE = 1e-9
END = """
UPDATE taskbell.task SET status = %s, finished_at = clock_timestamp() - interval '1 hour'
WHERE id = ANY (%s) RETURNING id"""
CHURN = """SELECT sum(n_tup_ins) >= 1000 FROM pg_stat_user_tables
    WHERE schemaname = 'taskbell' AND relname = 'outbox'"""


def write(url: str, statement: str, *parameters: object) -> None:
    with psycopg.connect(conninfo(url)) as opened:
        opened.execute(statement.encode(), parameters)


def end(url: str, status: str, *ids: UUID) -> None:
    write(url, END, status, list(ids))


def kept(url: str) -> set[UUID]:
    return {row[0] for row in rows(url, "SELECT id FROM taskbell.task")}


async def test_depth_age_and_drain_rate_are_measured(
    connection: DedicatedConnection, database_url: str
) -> None:
    make_tasks(database_url, 3, delay=-60, queue="mail")
    make_tasks(database_url, delay=3600, queue="mail")
    (first,) = await Measure().run_once(connection)
    await connection.run(upkeep.COUNT_SETTLED, queues=["mail"], counts=[30])
    await connection.run(upkeep.COUNT_SETTLED, queues=["mail"], counts=[20])
    write(database_url, "UPDATE taskbell.queue SET measured_at = measured_at - interval '5 s'")

    (second,) = await Measure().run_once(connection)

    assert (first.queue, first.depth, first.drain_rate) == ("mail", 3, 0)
    assert 60 <= first.oldest_age < 90
    assert 5 < second.drain_rate <= 10


async def test_an_idle_queue_is_measured_until_that_is_known(
    connection: DedicatedConnection, database_url: str
) -> None:
    await connection.run(upkeep.COUNT_SETTLED, queues=["mail"], counts=[10])
    depths = [[each.depth for each in await Measure().run_once(connection)] for _ in range(4)]
    write(database_url, "UPDATE taskbell.queue SET measured_at = measured_at - interval '1 day'")
    await connection.run(upkeep.COUNT_SETTLED, queues=["mail"], counts=[50])

    (again,) = await Measure().run_once(connection)

    assert depths[0] == [0]
    assert depths[-1] == []
    assert again.drain_rate == pytest.approx(10)


async def test_the_hot_tables_are_vacuumed_once_enough_changed(
    connection: DedicatedConnection, database_url: str
) -> None:
    duty = Vacuum()
    before = await duty.run_once(connection)
    make_tasks(database_url, 1000)
    wait_until("the statistics are there", lambda: rows(database_url, CHURN)[0][0])

    done = await duty.run_once(connection)
    again = await duty.run_once(connection)

    assert isinstance(done, TablesVacuumed)
    assert (before, again) == (None, None)


async def test_a_table_that_somebody_else_holds_is_passed_by(
    connection: DedicatedConnection, database_url: str
) -> None:
    make_tasks(database_url, 1000)
    wait_until("the statistics are there", lambda: rows(database_url, CHURN)[0][0])
    with psycopg.connect(conninfo(database_url)) as other:
        other.execute("LOCK TABLE taskbell.outbox IN SHARE UPDATE EXCLUSIVE MODE")

        done = await Vacuum().run_once(connection)
        reaped = await Reap().run_once(connection)

    assert isinstance(done, TablesVacuumed)
    assert reaped is None


def test_after_a_reset_of_the_statistics_changes_count_from_zero() -> None:
    assert worthwhile(1000, before=1_000_000)
    assert not worthwhile(999, before=1_000_000)
    assert not worthwhile(1_000_999, before=1_000_000)


async def test_every_partition_without_a_head_gets_one(
    connection: DedicatedConnection, database_url: str
) -> None:
    for key in ("a", "a", "b"):
        make_tasks(database_url, partition_key=key)

    done = await Promote().run_once(connection)

    assert done == PartitionsPromoted(2)
    assert await Promote().run_once(connection) is None


async def test_the_quick_look_promotes_new_partitions_only_once(
    connection: DedicatedConnection, database_url: str
) -> None:
    promoter = Promoter()
    make_tasks(database_url, partition_key="a")
    first = await promoter.run_once(connection)
    make_tasks(database_url, partition_key="a")
    make_tasks(database_url, partition_key="b")

    second = await promoter.run_once(connection)

    assert (first, second) == (PartitionsPromoted(1), PartitionsPromoted(1))
    assert await promoter.run_once(connection) is None


async def test_what_ended_well_and_long_ago_goes_with_all_that_belongs_to_it(
    connection: DedicatedConnection, database_url: str
) -> None:
    with psycopg.connect(conninfo(database_url)) as opened:
        done = Producer().enqueue(opened, "noop", idempotency_key="key").task_id
    cancelled, failed, waiting = make_tasks(database_url, 3)
    for status, task_id in (("COMPLETED", done), ("CANCELLED", cancelled), ("FAILED", failed)):
        end(database_url, status, task_id)
    for task_id in (done, failed, waiting):
        write(
            database_url,
            "INSERT INTO taskbell.failure (task_id, attempt, outcome) VALUES (%s, 1, 'retry')",
            task_id,
        )
        write(
            database_url,
            "INSERT INTO taskbell.effect (scope, dedup_key, task_id) VALUES ('s', %s, %s)",
            str(task_id),
            task_id,
        )

    long_kept = await Prune(1).run_once(connection)
    pruned = await Prune(AT_ONCE).run_once(connection)

    assert long_kept is None
    assert pruned == TasksPruned(2, 2)
    assert kept(database_url) == {failed, waiting}
    assert rows(database_url, "SELECT 1 FROM taskbell.idempotency") == []
    assert {row[0] for row in rows(database_url, "SELECT task_id FROM taskbell.failure")} == {
        failed,
        waiting,
    }
    assert rows(database_url, "SELECT task_id FROM taskbell.effect") == [(waiting,)]


async def test_a_run_goes_on_where_the_last_one_ended_and_comes_round(
    connection: DedicatedConnection, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prune, "_BATCH", 2)
    monkeypatch.setattr(prune, "_BATCHES", 1)
    failed = make_tasks(database_url, 2)
    late, done = make_tasks(database_url), make_tasks(database_url, 3)
    end(database_url, "FAILED", *failed)
    end(database_url, "COMPLETED", *done)
    duty = Prune(AT_ONCE)

    runs = [await duty.run_once(connection) for _ in range(3)]
    pace = await duty.pause(connection)
    end(database_url, "COMPLETED", *late)
    round_again = [await duty.run_once(connection) for _ in range(3)]

    assert runs == [None, TasksPruned(1, 0), TasksPruned(2, 0)]
    assert pace == 0.0
    assert TasksPruned(1, 0) in round_again
    assert kept(database_url) == set(failed)


async def test_a_century_keeps_everything(
    connection: DedicatedConnection, database_url: str
) -> None:
    ids = make_tasks(database_url)
    end(database_url, "COMPLETED", *ids)

    assert await Prune(36_500).run_once(connection) is None
    assert kept(database_url) == set(ids)


async def test_listeners_and_queues_that_nobody_knows_any_more_are_forgotten(
    connection: DedicatedConnection, database_url: str
) -> None:
    write(
        database_url,
        "INSERT INTO taskbell.bell VALUES ('dead', clock_timestamp(), clock_timestamp() - "
        "interval '2 h'), ('alive', clock_timestamp(), clock_timestamp())",
    )
    write(
        database_url,
        "INSERT INTO taskbell.queue (name, paused, max_depth, on_dead, depth, drain_rate, "
        "settled, measured_settled, measured_at) "
        "SELECT name, name = 'paused', CASE WHEN name = 'limited' THEN 5 END, "
        "CASE WHEN name = 'holding' THEN 'hold' ELSE 'continue' END, "
        "CASE WHEN name = 'full' THEN 1 ELSE 0 END, 0, 7, CASE WHEN name = 'busy' THEN 6 ELSE 7 "
        "END, clock_timestamp() - CASE WHEN name = 'young' THEN interval '0' ELSE interval '2 h' "
        "END FROM unnest(ARRAY['old', 'young', 'paused', 'limited', 'holding', 'full', 'busy', "
        "'delayed', 'lined', 'running', 'held']) AS n(name)",
    )
    make_tasks(database_url, queue="delayed", delay=3600)
    make_tasks(database_url, queue="lined", partition_key="k")
    async with hands(database_url) as worker:
        await worker.claim_ids(make_tasks(database_url, queue="running"))
    write(
        database_url,
        "INSERT INTO taskbell.held_partition (queue, partition_key, task_id) "
        "VALUES ('held', 'k', gen_random_uuid())",
    )

    await Prune(36_500).run_once(connection)

    assert rows(database_url, "SELECT listener_id FROM taskbell.bell") == [("alive",)]
    names = {row[0] for row in rows(database_url, "SELECT name FROM taskbell.queue")}
    assert names == {
        "young", "paused", "limited", "holding", "full", "busy",
        "delayed", "lined", "running", "held",
    }  # fmt: skip


async def test_queues_are_forgotten_in_batches_without_a_rest(
    connection: DedicatedConnection, database_url: str
) -> None:
    write(
        database_url,
        "INSERT INTO taskbell.queue (name, depth, drain_rate, measured_at) "
        "SELECT 'q' || n, 0, 0, clock_timestamp() - interval '2 h' FROM generate_series(1, 1500) n",
    )
    prune = Prune(7)

    await prune.run_once(connection)
    pause = await prune.pause(connection)
    await prune.run_once(connection)

    assert pause == 0.0
    assert await prune.pause(connection) == prune.interval
    assert rows(database_url, "SELECT name FROM taskbell.queue") == []


async def test_a_process_says_that_it_is_there_until_it_departs(
    connection: DedicatedConnection, database_url: str
) -> None:
    me: dict[str, Any] = {"worker_id": "me", "role": "relay", "host": "h", "pid": 1, "slots": 2}
    write(
        database_url,
        "INSERT INTO taskbell.worker (worker_id, role, host, pid, seen_at) "
        "VALUES ('long gone', 'relay', 'h', 1, clock_timestamp() - interval '25 h')",
    )
    await connection.run(upkeep.ATTEND, **me, running=0, queues=["mail"])
    await connection.run(upkeep.ATTEND, **me, running=1, queues=["mail"])

    present = rows(
        database_url, "SELECT worker_id, running, seen_at > started_at FROM taskbell.worker"
    )
    await connection.run(upkeep.DEPART, worker_id="me")

    assert present == [("me", 1, True)]
    assert rows(database_url, "SELECT 1 FROM taskbell.worker") == []
