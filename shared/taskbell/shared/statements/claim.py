"""The claim: take the leases of due tasks. Two doors, one tail.

Answers at most ``limit`` rows under any plan; locks no entry it does not return. An entry whose
task or partition still has a lease is left alone; an entry without a live task is removed.
"""

from taskbell.shared.statement import Statement
from taskbell.shared.statements.commit import RELAXED

# Looked up once a statement, not once a row; `queue_paused` has the paused ones alone.
_QUEUE_RUNS = """{queue} <> ALL (ARRAY(
          SELECT q.name FROM taskbell.queue q
          WHERE (q.paused OR q.paused_until IS NOT NULL)
            AND (q.paused OR q.paused_until > clock_timestamp())))"""

_TAIL = f"""taken AS (
    DELETE FROM taskbell.outbox o WHERE o.task_id = ANY (ARRAY(
        SELECT p.task_id FROM picked p
        WHERE (SELECT 1 FROM taskbell.lease l WHERE l.task_id = p.task_id) IS NULL
          AND (p.partition_key IS NULL
               OR (SELECT 1 FROM taskbell.lease l
                   WHERE l.queue = p.queue AND l.partition_key = p.partition_key) IS NULL
              AND NOT EXISTS (SELECT FROM picked x
                              WHERE x.queue = p.queue AND x.partition_key = p.partition_key
                                AND x.task_id < p.task_id))))
    RETURNING o.task_id, o.announced_at
), started AS (
    UPDATE taskbell.task t
    SET status = 'IN_PROGRESS', attempt_count = t.attempt_count + 1,
        started_at = COALESCE(t.started_at, clock_timestamp())
    WHERE t.id = ANY (ARRAY(SELECT task_id FROM taken)) AND t.status IN ('PENDING', 'RETRYING')
    RETURNING t.id AS task_id, t.type, t.queue, t.owner_id, t.attempt_count AS attempt,
              t.attempt_count - t.refunded AS used, t.partition_key,
              t.correlation_id, t.traceparent, t.created_at,
              t.payload, t.payload_sealed, t.payload_location
), leased AS (
    INSERT INTO taskbell.lease (task_id, queue, worker_id, attempt, expires_at, partition_key)
    SELECT s.task_id, s.queue, :worker_id, s.attempt,
           clock_timestamp() + make_interval(secs => COALESCE(
               CAST((SELECT CAST(:lease_by_type AS jsonb)) ->> s.type AS float8), :lease)),
           s.partition_key
    FROM started s
)
SELECT started.*,
       date_part('epoch', clock_timestamp() - taken.announced_at) AS announced_for
FROM started JOIN taken USING (task_id)
WHERE {RELAXED}
"""

BY_IDS = Statement(f"""
WITH picked AS MATERIALIZED (
    SELECT o.task_id, o.queue, o.partition_key FROM taskbell.outbox o
    WHERE o.task_id = ANY (CAST(:task_ids AS uuid[])) AND NOT o.parked
      AND o.publish_at <= clock_timestamp()
      AND {_QUEUE_RUNS.format(queue="o.queue")}
    LIMIT :limit
    FOR UPDATE OF o SKIP LOCKED
), {_TAIL}""")
"""From an announcement: its cost does not depend on the backlog."""

BY_QUEUE = Statement(f"""
WITH picked AS MATERIALIZED (
    SELECT d.task_id, d.queue, d.partition_key
    FROM unnest(CAST(:levels AS smallint[]), CAST(:floors AS timestamptz[])) AS level(priority, floor)
    CROSS JOIN LATERAL (
        SELECT o.task_id, o.queue, o.partition_key FROM taskbell.outbox o
        WHERE o.queue = :queue AND o.priority = level.priority AND NOT o.parked
          AND o.publish_at >= level.floor AND o.publish_at <= (SELECT clock_timestamp())
        ORDER BY o.publish_at LIMIT :limit
        FOR UPDATE OF o SKIP LOCKED) d
    WHERE {_QUEUE_RUNS.format(queue=":queue")}
    LIMIT :limit
), {_TAIL}""")
"""The poll: by priority, then by due time; a floor is where a level's entries began a moment ago."""
