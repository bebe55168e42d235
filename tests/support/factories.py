"""Makes tasks the short way, for tests of what happens to them afterwards."""

import json
from uuid import UUID

import psycopg

from taskbell.shared.database import conninfo
from taskbell.shared.ids import new_task_id

_INSERT = """
WITH t AS (
    INSERT INTO taskbell.task (id, type, queue, priority, max_attempts, payload, scheduled_at,
                               partition_key, partition_seq)
    SELECT i, %(type)s, %(queue)s, %(priority)s, %(max_attempts)s, %(payload)s::jsonb,
           clock_timestamp() + make_interval(secs => %(delay)s), %(partition_key)s::text,
           CASE WHEN %(partition_key)s::text IS NOT NULL THEN nextval('taskbell.partition_seq') END
    FROM unnest(%(ids)s::uuid[]) AS u(i)
    RETURNING id, queue, priority, scheduled_at, partition_key, partition_seq
)
INSERT INTO taskbell.outbox (task_id, queue, priority, publish_at, parked, partition_key,
                             partition_seq)
SELECT id, queue, priority, scheduled_at, partition_key IS NOT NULL, partition_key, partition_seq
FROM t
"""


def make_tasks(  # noqa: PLR0913 - each has a default; tests name what they mean
    url: str,
    count: int = 1,
    *,
    type: str = "noop",  # noqa: A002 - the word for it
    queue: str = "default",
    priority: int = 5,
    max_attempts: int = 5,
    delay: float = 0.0,
    payload: object = None,
    partition_key: str | None = None,
) -> list[UUID]:
    """Commit ``count`` waiting tasks and return their ids; ``payload`` is ``{}`` if not given."""
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
                "payload": json.dumps({} if payload is None else payload),
                "partition_key": partition_key,
            },
        )
    return ids
