"""The plans of the hot statements: which index they use, that nothing is sorted, what they read.

Both with the plan Postgres makes for given values and with the generic plan it keeps for prepared
statements, which believes that a LIMIT it does not know returns a tenth of the table.
"""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest

from support.plans import Node, prepared, read
from taskbell.shared.database import conninfo
from taskbell.shared.limits import LEVELS
from taskbell.shared.statement import Statement
from taskbell.shared.statements import claim, outbox

SMALL, LARGE, BATCH = 2_000, 200_000, 100

# Ids as a producer mints them: in the order of the rows.
FILL = """
WITH n AS (
    SELECT i, CAST('01900000-0000-7000-8000-' || lpad(to_hex(i), 12, '0') AS uuid) AS id
    FROM generate_series(1, {count}) AS i
), t AS (
    INSERT INTO taskbell.task (id, type, queue, priority, payload)
    SELECT id, 'noop', 'default', 5, '{{"order_id": 1}}' FROM n
)
INSERT INTO taskbell.outbox (task_id, queue, priority, publish_at)
SELECT id, 'default', 5, clock_timestamp() - interval '1 hour' + i * interval '1 ms' FROM n
"""

POLL = {
    "queue": "default",
    "levels": list(LEVELS),
    "floors": ["1970-01-01T00:00:00Z"] * len(LEVELS),
}
HOLD = {"worker_id": "w", "lease_by_type": "{}", "lease": 30.0, "limit": BATCH}
STATEMENTS: dict[str, tuple[Statement, dict[str, Any]]] = {
    "claim by ids": (claim.BY_IDS, HOLD),
    "claim by queue": (claim.BY_QUEUE, {**HOLD, **POLL}),
    "announce": (
        outbox.ANNOUNCE,
        {**POLL, "window": 2000, "batch": BATCH, "mark_age": 30, "connected_at": "1970-01-01"},
    ),
}


class Backlog:
    """A database with so many due tasks, asked for plans."""

    def __init__(self, connection: psycopg.Connection[Any], count: int) -> None:
        self._connection = connection
        connection.execute(FILL.format(count=count).encode())
        connection.commit()
        with psycopg.connect(connection.info.dsn, password=connection.info.password) as another:
            another.autocommit = True
            another.execute("VACUUM ANALYZE taskbell.task, taskbell.outbox, taskbell.lease")

    def plan(self, name: str, mode: str) -> list[Node]:
        """The nodes of the executed plan, the root first; what it did is rolled back."""
        statement, parameters = STATEMENTS[name]
        given = {**parameters, "task_ids": self._ids()} if name == "claim by ids" else parameters
        return prepared(self._connection, statement, mode, **given)

    def _ids(self) -> list[UUID]:
        rows = self._connection.execute(
            "SELECT task_id FROM taskbell.outbox ORDER BY task_id LIMIT %s", [BATCH]
        )
        return [row[0] for row in rows]


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(conninfo(database_url), options="-c jit=off") as opened:
        yield opened


@pytest.fixture
def backlog(connection: psycopg.Connection[Any]) -> Backlog:
    return Backlog(connection, LARGE)


@pytest.mark.parametrize("mode", ["custom", "generic"])
def test_the_hot_statements_use_their_indexes_and_sort_nothing(backlog: Backlog, mode: str) -> None:
    for name, index in {
        "claim by ids": "outbox_pkey",
        "claim by queue": "outbox_due",
        "announce": "outbox_due",
    }.items():
        nodes = backlog.plan(name, mode)
        scans = [node for node in nodes if node.get("Relation Name") in {"task", "outbox"}]

        assert index in {node.get("Index Name") for node in nodes}, name
        assert not [node for node in scans if node["Node Type"] == "Seq Scan"], name
        assert not [node for node in nodes if "Sort" in node["Node Type"]], name


@pytest.mark.parametrize("mode", ["custom", "generic"])
def test_two_hundred_thousand_due_tasks_change_hardly_what_isread(
    connection: psycopg.Connection[Any], mode: str
) -> None:
    small = Backlog(connection, SMALL)
    before = {name: read(small.plan(name, mode)) for name in STATEMENTS}
    connection.execute("TRUNCATE taskbell.task, taskbell.outbox")
    large = Backlog(connection, LARGE)
    after = {name: read(large.plan(name, mode)) for name in STATEMENTS}

    ratios = {name: round(after[name] / before[name], 2) for name in before}
    assert max(ratios.values()) <= 1.6, ratios
