"""The lease while it is held: extend it, and find those whose claim was never answered."""

from taskbell.shared.statement import Statement
from taskbell.shared.statements.commit import RELAXED

HEARTBEAT = Statement(f"""
WITH ask AS MATERIALIZED (
    SELECT * FROM unnest(CAST(:task_ids AS uuid[]), CAST(:attempts AS integer[]),
                         CAST(:leases AS float8[])) AS a(task_id, attempt, lease)
), mine AS MATERIALIZED (
    SELECT l.task_id, l.attempt FROM taskbell.lease l
    JOIN ask a ON a.task_id = l.task_id AND a.attempt = l.attempt
    WHERE l.worker_id = :worker_id
    FOR NO KEY UPDATE OF l SKIP LOCKED
), beaten AS (
    UPDATE taskbell.lease l SET expires_at = clock_timestamp() + make_interval(secs => a.lease)
    FROM mine m JOIN ask a USING (task_id, attempt) WHERE l.task_id = m.task_id
    RETURNING l.task_id, l.attempt, l.cancel_requested
)
SELECT a.task_id, a.attempt,
       CASE WHEN b.task_id IS NOT NULL THEN CASE WHEN b.cancel_requested THEN 'cancel' ELSE 'held' END
            WHEN l.task_id IS NOT NULL THEN 'busy' ELSE 'lost' END AS answer
FROM ask a LEFT JOIN beaten b ON b.task_id = a.task_id AND b.attempt = a.attempt
LEFT JOIN taskbell.lease l
       ON l.task_id = a.task_id AND l.attempt = a.attempt AND l.worker_id = :worker_id
WHERE {RELAXED}
""")
"""Never waits: behind one locked lease a waiting beat would extend none of those after it."""

CANCELLED = Statement("""
SELECT l.task_id, l.attempt FROM taskbell.lease l
WHERE l.worker_id = :worker_id AND l.cancel_requested
""")
"""What somebody asked this worker to cancel. Read every half second: by an index that is empty
unless somebody did, and that no heartbeat touches."""

PROGRESS = Statement("""
WITH said AS MATERIALIZED (
    SELECT * FROM unnest(CAST(:task_ids AS uuid[]), CAST(:attempts AS integer[]),
                         CAST(:progress AS text[])) AS s(task_id, attempt, progress)
), mine AS MATERIALIZED (
    SELECT l.task_id, CAST(s.progress AS jsonb) AS progress FROM taskbell.lease l
    JOIN said s ON s.task_id = l.task_id AND s.attempt = l.attempt
    WHERE l.worker_id = :worker_id
    FOR NO KEY UPDATE OF l SKIP LOCKED
)
UPDATE taskbell.lease l SET progress = m.progress
FROM mine m WHERE l.task_id = m.task_id
RETURNING l.task_id, l.attempt, set_config('synchronous_commit', 'off', true)
""")
"""What handlers last said about how far they are. Never waits: a lease that is locked keeps what it
had, and is not answered."""

UNKNOWN = Statement("""
SELECT t.id AS task_id, t.type, t.queue, t.owner_id, l.attempt, t.attempt_count - t.refunded AS used,
       t.partition_key, t.correlation_id, t.traceparent, t.created_at,
       t.payload, t.payload_sealed, t.payload_location,
       CAST(NULL AS float8) AS announced_for,
       CAST(extract(epoch FROM l.expires_at - clock_timestamp()) AS float8) AS remaining
FROM taskbell.lease l JOIN taskbell.task t ON t.id = l.task_id AND t.attempt_count = l.attempt
WHERE l.worker_id = :worker_id AND l.task_id <> ALL (CAST(:known AS uuid[]))
  AND l.expires_at > clock_timestamp()
""")
"""Leases this worker holds without knowing: their claim was committed and its answer lost.

Rows are those of a claim, with the seconds that remain.
"""

CURRENT = Statement("""
SELECT t.id AS task_id, t.attempt_count AS attempt
FROM taskbell.task t WHERE t.id = ANY (CAST(:task_ids AS uuid[]))
""")
"""Which attempt each task is at, for whoever lost one."""

NEXT_EXPIRY = Statement("""
SELECT CAST(extract(epoch FROM min(l.expires_at) - clock_timestamp()) AS float8) AS seconds
FROM taskbell.lease l
""")
"""In how many seconds the first lease runs out; null without leases."""
