"""Pages of tasks, newest first, by keyset: a page costs the same wherever it is and at any size."""

from functools import cache
from typing import Final

from taskbell.shared.statement import Statement

EXAMINED: Final = 1000
"""Most tasks one page looks at; with filters it may then hold few of them, or none."""

_COLUMNS: Final = """t.id AS task_id, t.type, t.queue, t.owner_id, t.status, t.priority, t.attempt_count AS attempts,
           t.max_attempts, t.partition_key, t.correlation_id, t.created_at, t.scheduled_at, t.started_at, t.finished_at"""

# Each walks one index from :before on. The empty owner is written out where the index leaves it out,
# or a plan for any parameter could not use the index.
_WALKS: Final = {
    "task": "taskbell.task d WHERE d.id < CAST(:before AS uuid)",
    "owner": "taskbell.task d WHERE d.owner_id = :owner_id AND d.owner_id <> '' AND d.id < CAST(:before AS uuid)",
    "correlation": "taskbell.task d WHERE d.correlation_id = :correlation_id AND d.id < CAST(:before AS uuid)",
    "owner's correlation": "taskbell.task d WHERE d.correlation_id = :correlation_id AND d.owner_id = :owner_id AND d.id < CAST(:before AS uuid)",
    "outbox": "taskbell.outbox d WHERE d.task_id < CAST(:before AS uuid)",
    "lease": "taskbell.lease d WHERE d.task_id < CAST(:before AS uuid)",
    "dead_letter": "taskbell.dead_letter d WHERE d.task_id < CAST(:before AS uuid)",
}
_OF_TASK: Final = frozenset({"task", "owner", "correlation", "owner's correlation"})

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
    walked = f"{_WALKS[walk]} ORDER BY d.{key} DESC"
    source = (
        f"(SELECT d.* FROM {walked} LIMIT {EXAMINED}) t"
        if walk in _OF_TASK
        else f"(SELECT d.task_id FROM {walked} LIMIT {EXAMINED}) e JOIN taskbell.task t ON t.id = e.task_id"
    )
    kept = " AND ".join(_FILTERS[name] for name in sorted(filters)) or "true"
    return Statement(f"""
WITH page AS MATERIALIZED (
    SELECT {_COLUMNS}
    FROM {source}
    WHERE {kept}
    ORDER BY t.id DESC LIMIT CAST(:limit AS bigint) + 1
)
SELECT edge.last, p.*
FROM (SELECT CASE WHEN (SELECT count(*) FROM page) <= CAST(:limit AS bigint)
                  THEN (SELECT d.{key} FROM {walked} OFFSET {EXAMINED - 1} LIMIT 1) END AS last) edge
LEFT JOIN page p ON true
ORDER BY p.task_id DESC
""")
