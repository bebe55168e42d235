"""Makes tasks the short way, for tests of what happens to them afterwards."""

from uuid import UUID

import psycopg

from taskbell.shared.database import conninfo
from taskbell.shared.ids import new_task_id

_INSERT = """
WITH t AS (
    INSERT INTO taskbell.task (id, type, queue, priority, max_attempts, payload, scheduled_at)
    SELECT i, %(type)s, %(queue)s, %(priority)s, %(max_attempts)s, '{}',
           clock_timestamp() + make_interval(secs => %(delay)s)
    FROM unnest(%(ids)s::uuid[]) AS u(i)
    RETURNING id, queue, priority, scheduled_at
)
INSERT INTO taskbell.outbox (task_id, queue, priority, publish_at)
SELECT id, queue, priority, scheduled_at FROM t
"""


def make_tasks(
    url: str,
    count: int = 1,
    *,
    type: str = "noop",  # noqa: A002 - the word for it
    queue: str = "default",
    priority: int = 5,
    max_attempts: int = 5,
    delay: float = 0.0,
) -> list[UUID]:
    """Commit ``count`` waiting tasks and return their ids."""
    ids: list[UUID] = [new_task_id() for _ in range(count)]
    with psycopg.connect(conninfo(url)) as connection:
        connection.execute(
            _INSERT,
            {
                "ids": ids,
                "type": type,
                "queue": queue,
                "priority": priority,
                "max_attempts": max_attempts,
                "delay": delay,
            },
        )
    return ids
