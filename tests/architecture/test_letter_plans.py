"""The plans of what operators read from 100 000 dead letters: a page costs no more than a page."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from support.plans import executed, read
from taskbell.shared import dead_letters
from taskbell.shared.database import Database, DedicatedConnection, conninfo
from taskbell.shared.dead_letters import Filters
from taskbell.shared.statements import dead_letter

LETTERS, CAUSES = 100_000, 50

FILL = f"""
INSERT INTO taskbell.dead_letter (task_id, failed_at, attempt_count, owner_id, queue, type,
                                  error_class, fingerprint, last_error, worker_id)
SELECT CAST('01900000-0000-7000-8000-' || lpad(to_hex(i), 12, '0') AS uuid),
       clock_timestamp() - i * interval '1 s', 5, '', 'default', 'noop', 'ValueError',
       md5(CAST(i % {CAUSES} AS text)), repeat('what went wrong ', 10), 'w'
FROM generate_series(1, {LETTERS}) AS i
"""

READ = """
SELECT heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit
FROM pg_statio_user_tables WHERE relname = 'dead_letter'
"""

CAUSE = {"fingerprint": "c4ca4238a0b923820dcc509a6f75849b"}  # of i % CAUSES = 1
NEWEST = {"before_at": "infinity", "before_id": "ffffffff-ffff-ffff-ffff-ffffffffffff", "limit": 50}
OLDEST = {
    "after_at": "-infinity", "after_id": "00000000-0000-0000-0000-000000000000",
    "until": "infinity", "batch": 500,
}  # fmt: skip
ONLY_CAUSE = frozenset({"fingerprint"})
ALL: frozenset[str] = frozenset()


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    # As the commands connect: behind a pooler, with the plan for the given values.
    with psycopg.connect(conninfo(database_url), autocommit=True) as opened:
        # Nobody else reads the table: one test counts what is read of it.
        opened.execute("ALTER TABLE taskbell.dead_letter SET (autovacuum_enabled = false)")
        opened.execute(FILL.encode())
        opened.execute("VACUUM ANALYZE taskbell.dead_letter")
        yield opened


def test_pages_read_what_they_show(connection: psycopg.Connection[Any]) -> None:
    cases = {
        "list": (dead_letter.newest(ALL), NEWEST, "dead_letter_newest", 20),
        "list of a cause": (
            dead_letter.newest(ONLY_CAUSE), NEWEST | CAUSE, "dead_letter_cause", 100
        ),
        "redrive all": (dead_letter.oldest(ALL), OLDEST, "dead_letter_newest", 100),
        "redrive a cause": (
            dead_letter.oldest(ONLY_CAUSE), OLDEST | CAUSE, "dead_letter_cause", 600
        ),
    }  # fmt: skip
    for name, (statement, given, index, pages) in cases.items():
        found = executed(connection, statement, **given)

        assert {node["Index Name"] for node in found if "Index Name" in node} == {index}, name
        assert not [node for node in found if "Sort" in node["Node Type"]], name
        assert read(found) <= pages, (name, read(found))


def test_causes_read_every_letter_once_and_find_their_examples_by_the_index(
    connection: psycopg.Connection[Any],
) -> None:
    (pages,) = connection.execute(
        "SELECT pg_relation_size('taskbell.dead_letter') / current_setting('block_size')::int"
    ).fetchone() or (0,)

    found = executed(connection, dead_letter.causes(ALL), limit=50)

    assert {node["Index Name"] for node in found if "Index Name" in node} == {"dead_letter_cause"}
    assert read(found) <= pages + 6 * CAUSES
    sorted_rows = [node["Actual Rows"] for node in found if "Sort" in node["Node Type"]]
    assert max(sorted_rows, default=0) <= CAUSES


async def test_an_owner_reads_none_of_anybody_elses_letters(
    connection: psycopg.Connection[Any], database_url: str
) -> None:
    """By the statements the API has prepared, whatever plan the server keeps for them."""
    connection.execute("SELECT pg_stat_force_next_flush()")  # what was read to fill it
    runner = DedicatedConnection(Database(database_url), "test")
    opened = await runner.opened()
    await opened.execute("SET plan_cache_mode = force_generic_plan")
    nobody = [
        Filters(owner_id="nobody", **more)
        for more in ({}, {"type": "noop"}, {"queue": "default", "type": "noop"})
    ]

    async def blocks() -> int:
        await opened.execute("SELECT pg_stat_force_next_flush()")
        answer = await opened.execute(READ)
        return int((await answer.fetchone() or (0,))[0])

    before = await blocks()
    for only in nobody:
        assert await dead_letters.list_many(runner, only) == []
        assert await dead_letters.causes(runner, only) == []
        assert await dead_letters.redrive_all(runner, only, actor="test") == 0
    used = await blocks() - before
    await runner.close()

    assert used <= 200, used
