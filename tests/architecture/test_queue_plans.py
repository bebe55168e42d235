"""What listing queues reads, where somebody made thousands of them."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from support.plans import executed, read
from taskbell.shared.database import conninfo
from taskbell.shared.queues import MOST_LISTED
from taskbell.shared.statements import queue

QUEUES, LEASES, HELD = 2_000, 4_000, 4_000

FILL = f"""
INSERT INTO taskbell.queue (name, depth)
SELECT 'q' || i, 1 FROM generate_series(1, {QUEUES}) AS i;
INSERT INTO taskbell.lease (task_id, attempt, worker_id, queue, expires_at)
SELECT gen_random_uuid(), 1, 'w', 'q' || (i % {QUEUES} + 1), 'infinity'
FROM generate_series(1, {LEASES}) AS i;
INSERT INTO taskbell.held_partition (queue, partition_key, task_id)
SELECT 'q' || (i % {QUEUES} + 1), CAST(i AS text), gen_random_uuid()
FROM generate_series(1, {HELD}) AS i
"""
TABLES = ("queue", "lease", "held_partition")


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(conninfo(database_url), autocommit=True) as opened:
        opened.execute(FILL.encode())
        opened.execute(b"VACUUM ANALYZE taskbell.queue, taskbell.lease, taskbell.held_partition")
        yield opened


def test_a_page_of_queues_reads_each_table_once_and_a_block_for_each_row(
    connection: psycopg.Connection[Any],
) -> None:
    found = executed(connection, queue.OVERVIEW, after="", limit=MOST_LISTED)
    blocks = 0
    for table in TABLES:
        row = connection.execute(
            "SELECT sum(pg_relation_size(oid)) / current_setting('block_size')::int FROM pg_class "
            "WHERE relnamespace = 'taskbell'::regnamespace AND relname IN (%s, %s)",
            (table, f"{table}_pkey"),
        ).fetchone()
        assert row is not None
        blocks += int(row[0])

    assert found[0]["Actual Rows"] == MOST_LISTED
    assert read(found) <= blocks + MOST_LISTED
