"""The relay's side of ``outbox``: which entries are due, mark them, take marks back."""

from taskbell.shared.statement import Statement
from taskbell.shared.statements.commit import RELAXED

MARK_SECONDS = 30
"""A mark is older than this, or than the broker connection it was made on: announce again."""

ANNOUNCE = Statement(f"""
WITH bound AS MATERIALIZED (
    SELECT GREATEST(clock_timestamp() - make_interval(secs => :mark_age),
                    CAST(:connected_at AS timestamptz)) AS again_before
), front AS MATERIALIZED (
    SELECT f.place, f.announced_at
    FROM unnest(CAST(:levels AS smallint[]), CAST(:floors AS timestamptz[])) AS level(priority, floor)
    CROSS JOIN LATERAL (
        SELECT o.ctid AS place, o.announced_at FROM taskbell.outbox o
        WHERE o.queue = :queue AND o.priority = level.priority AND NOT o.parked
          AND o.publish_at >= level.floor AND o.publish_at <= (SELECT clock_timestamp())
        ORDER BY o.publish_at LIMIT :window) f
    LIMIT :window
), fresh AS MATERIALIZED (
    SELECT o.ctid AS place FROM taskbell.outbox o
    WHERE o.ctid = ANY (ARRAY(
            SELECT place FROM front
            WHERE announced_at IS NULL OR announced_at < (SELECT again_before FROM bound)
            LIMIT :batch))
      AND NOT o.parked
      AND (o.announced_at IS NULL OR o.announced_at < (SELECT again_before FROM bound))
    FOR UPDATE SKIP LOCKED
)
UPDATE taskbell.outbox o SET announced_at = clock_timestamp()
WHERE o.ctid = ANY (ARRAY(SELECT place FROM fresh)) AND {RELAXED}
RETURNING o.task_id, o.priority, o.publish_at
""")
"""Mark the first due entries of a queue, level by level. Commit, and only then publish."""

UNANNOUNCE = Statement(f"""
WITH mine AS MATERIALIZED (
    SELECT o.task_id FROM taskbell.outbox o
    WHERE o.task_id = ANY (CAST(:task_ids AS uuid[])) AND o.announced_at IS NOT NULL
    ORDER BY o.task_id FOR UPDATE SKIP LOCKED
)
UPDATE taskbell.outbox o SET announced_at = NULL
WHERE o.task_id = ANY (ARRAY(SELECT task_id FROM mine)) AND {RELAXED}
RETURNING o.task_id
""")
"""Take back marks whose announcement was refused, returned or not confirmed in time."""

FLOORS = Statement("""
SELECT level.priority,
       LEAST((SELECT o.publish_at FROM taskbell.outbox o
              WHERE o.queue = :queue AND o.priority = level.priority AND NOT o.parked
              ORDER BY o.publish_at LIMIT 1),
             clock_timestamp() - interval '2 seconds') AS head
FROM unnest(CAST(:levels AS smallint[])) AS level(priority)
""")
"""The earliest entry of each level: a hint that spares later passes the dead index entries before.

Never younger than two seconds: a transaction that began before the look may commit after it.
"""

NEXT_DUE = Statement("""
SELECT CASE WHEN count(*) > 0 THEN
           CAST(GREATEST(0, extract(epoch FROM min(n.publish_at) - clock_timestamp())) AS float8) END
       AS seconds
FROM unnest(CAST(:queues AS text[])) AS queue(name)
CROSS JOIN unnest(CAST(:levels AS smallint[])) AS level(priority)
CROSS JOIN LATERAL (
    SELECT o.publish_at FROM taskbell.outbox o
    WHERE o.queue = queue.name AND o.priority = level.priority AND NOT o.parked
      AND o.publish_at > (SELECT clock_timestamp() - interval '20 ms')
    ORDER BY o.publish_at LIMIT 1) n
""")
"""Seconds until the next entry of these queues becomes due; NULL if none waits.

One that became due a moment ago counts, since the pass before may have looked just too early.
"""

WAITING_QUEUES = Statement("""
WITH RECURSIVE line AS (
    (SELECT o.queue FROM taskbell.outbox o WHERE NOT o.parked ORDER BY o.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT o.queue FROM taskbell.outbox o WHERE NOT o.parked AND o.queue > line.queue
            ORDER BY o.queue LIMIT 1)
    FROM line WHERE line.queue IS NOT NULL
)
SELECT queue FROM line WHERE queue IS NOT NULL
""")
"""The queues that have entries, found by hopping through ``outbox_due`` (one probe a queue)."""

CLOCK = Statement("SELECT clock_timestamp() AS now")
