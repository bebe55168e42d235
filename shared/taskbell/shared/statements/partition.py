"""Partitions: exactly one place makes the first head of a key.

"No lease and no unparked entry of this key" is made true only by ending the head, and false only
here or by the settlement that ends a head. A claim, retry or reap moves the head between ``outbox``
and ``lease`` in one commit, so any snapshot sees it in exactly one of them.
"""

from taskbell.shared.statement import Statement

_TAIL = """free AS MATERIALIZED (
    SELECT line.task_id FROM line
    WHERE (SELECT 1 FROM taskbell.lease l
           WHERE l.queue = line.queue AND l.partition_key = line.partition_key) IS NULL
      AND (SELECT 1 FROM taskbell.outbox o
           WHERE o.queue = line.queue AND o.partition_key = line.partition_key AND NOT o.parked
           LIMIT 1) IS NULL
    LIMIT :batch
), heir AS MATERIALIZED (
    SELECT o.task_id FROM taskbell.outbox o
    WHERE o.parked AND o.task_id = ANY (ARRAY(SELECT task_id FROM free)) FOR UPDATE SKIP LOCKED
)
UPDATE taskbell.outbox o
SET parked = false, publish_at = GREATEST(o.publish_at, clock_timestamp())
WHERE o.task_id = ANY (ARRAY(SELECT task_id FROM heir))
RETURNING o.task_id, set_config('synchronous_commit', 'off', true)
"""

LOCK = Statement(
    "SELECT pg_try_advisory_xact_lock(hashtextextended('taskbell.promote', 0)) AS locked"
)
"""A statement of its own: the look that follows needs a snapshot younger than the lock."""

PROMOTE = Statement(f"""
WITH RECURSIVE line AS (
    (SELECT o.task_id, o.queue, o.partition_key FROM taskbell.outbox o WHERE o.parked
     ORDER BY o.queue, o.partition_key, o.partition_seq LIMIT 1)
    UNION ALL
    SELECT n.task_id, n.queue, n.partition_key FROM line
    CROSS JOIN LATERAL (SELECT o.task_id, o.queue, o.partition_key FROM taskbell.outbox o
                        WHERE o.parked AND (o.queue, o.partition_key) > (line.queue, line.partition_key)
                        ORDER BY o.queue, o.partition_key, o.partition_seq LIMIT 1) n
), {_TAIL}""")
"""Heads for all keys that have none."""

PROMOTE_NEW = Statement(f"""
WITH line AS MATERIALIZED (
    SELECT n.task_id, k.queue, k.partition_key
    FROM (SELECT DISTINCT queue, partition_key FROM taskbell.outbox
          WHERE parked AND partition_seq > :since) k
    CROSS JOIN LATERAL (SELECT o.task_id FROM taskbell.outbox o
                        WHERE o.parked AND o.queue = k.queue AND o.partition_key = k.partition_key
                        ORDER BY o.partition_seq LIMIT 1) n
), {_TAIL}""")
"""Heads for the keys that have entries numbered above ``since``; cheap enough for every pass."""

NEWEST = Statement("""
SELECT COALESCE(max(o.partition_seq), 0) AS newest FROM taskbell.outbox o WHERE o.parked
""")
"""The highest number among parked entries, from the end of ``outbox_line_new``."""
