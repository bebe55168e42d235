"""One task as its operator asks for it: where it is, what it waits for, what it was given."""

from taskbell.shared.statement import Statement

# Whose it must be stands in the condition itself: another owner's task is found as little as one
# that never was, by the same statement and the same one row of the index.
_MINE = """t.id = CAST(:task_id AS uuid)
  AND (CAST(:owner_id AS text) IS NULL OR t.owner_id = CAST(:owner_id AS text))"""

# A line may hold tasks of several owners: one is not told the ids of another's.
_SEEN = "(CAST(:owner_id AS text) IS NULL OR x.owner_id = CAST(:owner_id AS text))"

WHERE_IS = Statement(f"""
SELECT t.id AS task_id, t.type, t.queue, t.owner_id, t.status, t.priority, t.partition_key,
       t.correlation_id, t.created_at, t.scheduled_at, t.started_at, t.finished_at,
       t.attempt_count AS attempt, t.attempt_count - t.refunded AS used, t.max_attempts,
       t.error_message,
       o.publish_at AS due_at,
       CAST(extract(epoch FROM o.publish_at - clock_timestamp()) AS float8) AS due_in,
       COALESCE(o.parked, false) AS parked,
       CAST(extract(epoch FROM clock_timestamp() - o.announced_at) AS float8) AS announced_for,
       COALESCE(q.paused OR q.paused_until > clock_timestamp(), false) AS queue_paused,
       CASE WHEN NOT q.paused THEN q.paused_until END AS paused_until,
       l.worker_id, CAST(extract(epoch FROM l.expires_at - clock_timestamp()) AS float8) AS lease_left,
       COALESCE(l.cancel_requested, false) AS cancel_requested, l.progress,
       d.error_class, d.fingerprint,
       (SELECT x.id FROM taskbell.task x WHERE {_SEEN} AND x.id = h.task_id) AS held_by,
       CASE WHEN o.parked THEN (SELECT x.id FROM taskbell.task x WHERE {_SEEN} AND x.id = COALESCE(
            (SELECT r.task_id FROM taskbell.lease r
             WHERE r.queue = o.queue AND r.partition_key = o.partition_key),
            (SELECT r.task_id FROM taskbell.outbox r
             WHERE r.queue = o.queue AND r.partition_key = o.partition_key AND NOT r.parked LIMIT 1),
            (SELECT r.task_id FROM taskbell.outbox r
             WHERE r.queue = o.queue AND r.partition_key = o.partition_key AND r.parked
             ORDER BY r.partition_seq LIMIT 1))) END AS partition_head
FROM taskbell.task t
LEFT JOIN taskbell.outbox o ON o.task_id = t.id
LEFT JOIN taskbell.lease l ON l.task_id = t.id
LEFT JOIN taskbell.dead_letter d ON d.task_id = t.id
LEFT JOIN taskbell.held_partition h ON h.queue = t.queue AND h.partition_key = t.partition_key
LEFT JOIN taskbell.queue q ON q.name = t.queue
WHERE {_MINE}
""")
"""Without payload and result, which are only read when they are asked for."""

PAYLOAD = Statement(f"""
SELECT t.owner_id, t.payload, t.payload_sealed AS sealed, t.payload_location AS location
FROM taskbell.task t WHERE {_MINE}
""")

RESULT = Statement(f"""
SELECT t.owner_id, t.result, t.result_sealed AS sealed, t.result_location AS location
FROM taskbell.task t WHERE {_MINE}
""")

OWNED = Statement("""
SELECT t.id AS task_id FROM taskbell.task t
WHERE t.id = ANY (CAST(:task_ids AS uuid[])) AND t.owner_id = CAST(:owner_id AS text)
""")
"""Those of the ids that are this owner's. An owner never changes, so what is done to them afterwards
by another statement is still done to the owner's own."""
