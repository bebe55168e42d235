"""Pages of tasks, newest first, by keyset: a page costs the same wherever it is and at any size."""

from functools import cache
from typing import Final

from taskbell.shared.statement import Statement

EXAMINED: Final = 1000
"""Most tasks one page looks at; with filters it may then hold few of them, or none."""

_COLUMNS: Final = """t.id AS task_id, t.type, t.queue, t.owner_id, t.status, t.priority, t.attempt_count AS attempts,
           t.max_attempts, t.partition_key, t.correlation_id, t.created_at, t.scheduled_at, t.started_at, t.finished_at"""

# Each walks one index from :before on, and no other: an index that begins with a name is walked by
# comparing rows, for with "name = x" a plan for any parameter may prefer to walk all ids and to look
# for the name, which takes for ever if the name is rare. The empty owner is written out where the
# index leaves it out.
_NAMED: Final = """taskbell.task d
        WHERE (d.{name}, d.id) < (:{name}, CAST(:before AS uuid))
          AND (d.{name}, d.id) >= (:{name}, CAST('00000000-0000-0000-0000-000000000000' AS uuid)){more}
        ORDER BY d.{name} DESC, d.id DESC"""
# Two names as one value: a scan ends at a bound of several columns only where the first one ends.
_BOTH: Final = "ARRAY[d.owner_id, d.correlation_id]"
_BOTH_ASKED: Final = "ARRAY[CAST(:owner_id AS text), CAST(:correlation_id AS text)]"
_OWNERS_NAMED: Final = f"""taskbell.task d
        WHERE ({_BOTH}, d.id) < ({_BOTH_ASKED}, CAST(:before AS uuid))
          AND ({_BOTH}, d.id) >= ({_BOTH_ASKED}, CAST('00000000-0000-0000-0000-000000000000' AS uuid))
          AND d.owner_id <> '' AND d.correlation_id IS NOT NULL
        ORDER BY {_BOTH} DESC, d.id DESC"""
_PLAIN: Final = "{table} d WHERE d.{key} < CAST(:before AS uuid) ORDER BY d.{key} DESC"
_WALKS: Final = {
    "task": _PLAIN.format(table="taskbell.task", key="id"),
    "owner": _NAMED.format(name="owner_id", more=" AND d.owner_id <> ''"),
    "correlation": _NAMED.format(name="correlation_id", more=" AND d.correlation_id IS NOT NULL"),
    "owner's correlation": _OWNERS_NAMED,
    "outbox": _PLAIN.format(table="taskbell.outbox", key="task_id"),
    "lease": _PLAIN.format(table="taskbell.lease", key="task_id"),
    "dead_letter": _PLAIN.format(table="taskbell.dead_letter", key="task_id"),
}
_OF_TASK: Final = frozenset({"task", "owner", "correlation", "owner's correlation"})

_ORDERS: Final = {
    "owner": "t.owner_id DESC, ",
    "correlation": "t.correlation_id DESC, ",
    "owner's correlation": "t.both DESC, ",
}
_FILTERS: Final = {
    "owner_id": "t.owner_id = :owner_id",
    "status": "t.status = :status",
    "type": "t.type = :type",
    "queue": "t.queue = :queue",
    "correlation_id": "t.correlation_id = :correlation_id",
}


@cache
def page(walk: str, filters: frozenset[str]) -> Statement:
    """Return the statement of pages that walk this way and keep what passes these filters.

    Its parameters: ``before`` (an id), ``limit``, and what walk and filters name. It answers up to
    ``limit + 1`` tasks, and with each ``last``: the id it looked at last, if there may be more
    behind it; a row without a task if it found none.
    """
    key = "id" if walk in _OF_TASK else "task_id"
    walked = _WALKS[walk]
    both = f", {_BOTH} AS both" if walk == "owner's correlation" else ""
    source = (
        f"(SELECT d.*{both} FROM {walked} LIMIT {EXAMINED}) t"
        if walk in _OF_TASK
        else f"(SELECT d.task_id FROM {walked} LIMIT {EXAMINED}) e JOIN taskbell.task t ON t.id = e.task_id"
    )
    # In the order of the walk, which ends once the page is full.
    order = _ORDERS.get(walk, "")
    kept = " AND ".join(_FILTERS[name] for name in sorted(filters)) or "true"
    return Statement(f"""
WITH page AS MATERIALIZED (
    SELECT {_COLUMNS}
    FROM {source}
    WHERE {kept}
    ORDER BY {order}t.id DESC LIMIT CAST(:limit AS bigint) + 1
)
SELECT edge.last, p.*
FROM (SELECT CASE WHEN (SELECT count(*) FROM page) <= CAST(:limit AS bigint)
                  THEN (SELECT d.{key} FROM {walked} OFFSET {EXAMINED - 1} LIMIT 1) END AS last) edge
LEFT JOIN page p ON true
ORDER BY p.task_id DESC
""")
