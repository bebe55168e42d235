"""Partitions: exactly one place makes the first head of a key.

"No lease and no unparked entry of this key, and no hold" is made true only by ending the head or by
lifting the hold, and false only here or by the statement that ends the head or lifts the hold. A
claim, retry or reap moves the head between ``outbox`` and ``lease`` in one commit, and a head that
ends on a queue on hold leaves the hold in the same one: any snapshot sees exactly one of the three.
So a settled lease's partition is never held, and the hot path need not look.
"""

from taskbell.shared.statement import Statement
from taskbell.shared.statements.commit import RELAXED

_ON_HOLD = """(SELECT 1 FROM taskbell.queue q
           WHERE q.name = e.queue AND q.on_dead = 'hold') IS {what}"""


def hold(ended: str) -> str:
    """Return the CTE ``holding``: heads that failed or were cancelled hold a queue on hold.

    ``ended`` selects their task_id, queue and partition_key.
    """
    return f"""holding AS (
    INSERT INTO taskbell.held_partition (queue, partition_key, task_id)
    SELECT e.queue, e.partition_key, e.task_id FROM ({ended}) e
    WHERE {_ON_HOLD.format(what="NOT NULL")}
    ON CONFLICT DO NOTHING
)"""


def not_held(ended: str) -> str:
    """Select queue and partition_key of those of ``ended`` that ``hold`` leaves alone."""
    return f"""SELECT DISTINCT e.queue, e.partition_key FROM ({ended}) e
               WHERE {_ON_HOLD.format(what="NULL")}"""


def lift(dead: str) -> str:
    """Return the CTE ``lifted``: the holds of the tasks in the CTE ``dead`` are gone."""
    return f"""holds AS MATERIALIZED (
    SELECT h.task_id FROM taskbell.held_partition h
    WHERE h.task_id = ANY (ARRAY(SELECT task_id FROM {dead})) ORDER BY h.task_id FOR UPDATE
), lifted AS (
    DELETE FROM taskbell.held_partition h WHERE h.task_id = ANY (ARRAY(SELECT task_id FROM holds))
    RETURNING h.task_id, h.queue, h.partition_key
)"""


def hand_over(freed: str, *, sparing: str = "") -> str:
    """Return the CTE ``promoted``: the next of each partition ``freed`` selects is its head.

    ``sparing``: a condition on the entries ``p`` that may be next.
    """
    return f"""heir AS MATERIALIZED (
    SELECT o.task_id FROM taskbell.outbox o
    WHERE o.parked AND o.task_id = ANY (ARRAY(
        SELECT n.task_id FROM ({freed}) k
        CROSS JOIN LATERAL (SELECT p.task_id FROM taskbell.outbox p
                            WHERE p.parked AND p.queue = k.queue AND p.partition_key = k.partition_key
                            {sparing}
                            ORDER BY p.partition_seq LIMIT 1) n))
    FOR UPDATE SKIP LOCKED
), promoted AS (
    UPDATE taskbell.outbox o
    SET parked = false, publish_at = GREATEST(o.publish_at, clock_timestamp())
    WHERE o.task_id = ANY (ARRAY(SELECT task_id FROM heir))
    RETURNING o.task_id
)"""


LINE = """line AS (
    (SELECT o.task_id, o.queue, o.partition_key FROM taskbell.outbox o WHERE o.parked
     ORDER BY o.queue, o.partition_key, o.partition_seq LIMIT 1)
    UNION ALL
    SELECT n.task_id, n.queue, n.partition_key FROM line
    CROSS JOIN LATERAL (SELECT o.task_id, o.queue, o.partition_key FROM taskbell.outbox o
                        WHERE o.parked AND (o.queue, o.partition_key) > (line.queue, line.partition_key)
                        ORDER BY o.queue, o.partition_key, o.partition_seq LIMIT 1) n
)"""
"""The recursive CTE of the first parked entry of each key that has one."""

WITHOUT_HEAD = """(SELECT 1 FROM taskbell.lease l
       WHERE l.queue = line.queue AND l.partition_key = line.partition_key) IS NULL
  AND (SELECT 1 FROM taskbell.outbox o
       WHERE o.queue = line.queue AND o.partition_key = line.partition_key AND NOT o.parked
       LIMIT 1) IS NULL
  AND (SELECT 1 FROM taskbell.held_partition h
       WHERE h.queue = line.queue AND h.partition_key = line.partition_key) IS NULL"""
"""The condition on ``line`` that a key has no head, and may have one."""

_TAIL = f"""free AS MATERIALIZED (
    SELECT line.task_id FROM line WHERE {WITHOUT_HEAD} LIMIT :batch
), heir AS MATERIALIZED (
    SELECT o.task_id FROM taskbell.outbox o
    WHERE o.parked AND o.task_id = ANY (ARRAY(SELECT task_id FROM free)) FOR UPDATE SKIP LOCKED
)
UPDATE taskbell.outbox o
SET parked = false, publish_at = GREATEST(o.publish_at, clock_timestamp())
WHERE o.task_id = ANY (ARRAY(SELECT task_id FROM heir)) AND {RELAXED}
RETURNING o.task_id
"""

LOCK = Statement(
    "SELECT pg_try_advisory_xact_lock(hashtextextended('taskbell.promote', 0)) AS locked"
)
"""A statement of its own: the look that follows needs a snapshot younger than the lock."""

PROMOTE = Statement(f"WITH RECURSIVE {LINE}, {_TAIL}")
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
