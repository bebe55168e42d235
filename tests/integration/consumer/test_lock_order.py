"""Statements over the same leases, in any order, never deadlock."""

import threading

import psycopg

from integration.consumer.held import lend
from support.factories import make_tasks
from support.workers import rows
from taskbell.shared.database import conninfo
from taskbell.shared.statement import Statement
from taskbell.shared.statements import lease, settlement

# In the order of ids, like every statement that waits: the test must not be the one that deadlocks.
EMPTY_LEASE = """
WITH l AS MATERIALIZED (SELECT task_id FROM taskbell.lease ORDER BY task_id FOR UPDATE)
DELETE FROM taskbell.lease WHERE task_id = ANY (ARRAY(SELECT task_id FROM l))
"""


def hammer(
    url: str, stop: threading.Event, deadlocks: list[str], statement: Statement, **given: object
) -> threading.Thread:
    """A thread that repeats a statement on a connection of its own."""

    def loop() -> None:
        with psycopg.connect(conninfo(url), autocommit=True) as connection:
            while not stop.is_set():
                try:
                    connection.execute(statement.for_psycopg, given).fetchall()
                except psycopg.errors.DeadlockDetected as error:
                    deadlocks.append(str(error))

    thread = threading.Thread(target=loop)
    thread.start()
    return thread


def test_settle_heartbeat_and_reap_over_the_same_leases_never_deadlock(database_url: str) -> None:
    ids = make_tasks(database_url, 60)
    deadlocks: list[str] = []
    stop = threading.Event()
    descending = {"task_ids": ids[::-1], "attempts": [7] * 60, "worker_id": "w"}
    ascending = {"task_ids": ids[::2], "attempts": [7] * 30, "worker_id": "w"}
    settle, beat = settlement.SETTLE_COMPLETED, lease.HEARTBEAT
    threads = [
        hammer(database_url, stop, deadlocks, beat, **descending, leases=[0.001] * 60),
        hammer(database_url, stop, deadlocks, settlement.REAP, batch=40),
        hammer(database_url, stop, deadlocks, settle, **ascending),
        hammer(database_url, stop, deadlocks, settle, **descending),
    ]
    try:
        for _ in range(25):
            rows(database_url, EMPTY_LEASE)
            rows(database_url, "UPDATE taskbell.task SET status = 'PENDING', finished_at = NULL")
            rows(database_url, "DELETE FROM taskbell.dead_letter")
            lend(database_url, ids)
    finally:
        stop.set()
        for thread in threads:
            thread.join()

    assert deadlocks == []
