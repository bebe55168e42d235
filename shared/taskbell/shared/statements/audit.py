"""The audit: what no snapshot may ever show, and what may be so for a moment only."""

from taskbell.shared.statement import Statement
from taskbell.shared.statements.partition import LINE, WITHOUT_HEAD

HOT = Statement("""
SELECT 'I1 entry and lease' AS finding, o.task_id
FROM taskbell.outbox o JOIN taskbell.lease l USING (task_id)
UNION ALL
SELECT 'I1 entry of a task that does not wait', o.task_id
FROM taskbell.outbox o LEFT JOIN taskbell.task t ON t.id = o.task_id
WHERE t.id IS NULL OR t.status NOT IN ('PENDING', 'RETRYING')
UNION ALL
SELECT 'I1 lease of a task that does not run', l.task_id
FROM taskbell.lease l LEFT JOIN taskbell.task t ON t.id = l.task_id
WHERE t.id IS NULL OR t.status <> 'IN_PROGRESS'
UNION ALL
SELECT 'I2 lease of another attempt', l.task_id
FROM taskbell.lease l JOIN taskbell.task t ON t.id = l.task_id WHERE l.attempt <> t.attempt_count
UNION ALL
SELECT 'I3 dead letter of a task that has not failed', d.task_id
FROM taskbell.dead_letter d LEFT JOIN taskbell.task t ON t.id = d.task_id
WHERE t.status IS DISTINCT FROM 'FAILED'
UNION ALL
SELECT 'I4 two heads of one partition', o.task_id FROM taskbell.outbox o
WHERE o.partition_key IS NOT NULL AND NOT o.parked
  AND ((SELECT 1 FROM taskbell.lease l
        WHERE l.queue = o.queue AND l.partition_key = o.partition_key) IS NOT NULL
    OR (SELECT 1 FROM taskbell.outbox p
        WHERE p.queue = o.queue AND p.partition_key = o.partition_key
          AND p.partition_key IS NOT NULL AND NOT p.parked AND p.task_id <> o.task_id
        LIMIT 1) IS NOT NULL)
UNION ALL
SELECT 'I4 head of a held partition', COALESCE(l.task_id, o.task_id)
FROM taskbell.held_partition h
LEFT JOIN taskbell.lease l ON l.queue = h.queue AND l.partition_key = h.partition_key
LEFT JOIN taskbell.outbox o ON o.queue = h.queue AND o.partition_key = h.partition_key
     AND o.partition_key IS NOT NULL AND NOT o.parked
WHERE l.task_id IS NOT NULL OR o.task_id IS NOT NULL
UNION ALL
SELECT 'I4 partition held by a task that did not end badly', h.task_id
FROM taskbell.held_partition h JOIN taskbell.task t ON t.id = h.task_id
WHERE t.status NOT IN ('FAILED', 'CANCELLED')
""")
"""The hot tables and the dead letters, whole. One snapshot, so nothing it answers is a passing state.

A cancelled head is pruned in time, its hold stays.
"""

RECORD = Statement("""
SELECT CASE WHEN t.status = 'FAILED' THEN 'I3 failed task without dead letter'
            ELSE 'I1 live task without entry or lease' END AS finding, t.id AS task_id
FROM taskbell.task t
WHERE t.id > CAST(:after AS uuid) AND t.id <= CAST(:until AS uuid)
  AND CASE WHEN t.status = 'FAILED'
           THEN NOT EXISTS (SELECT FROM taskbell.dead_letter d WHERE d.task_id = t.id)
           ELSE t.finished_at IS NULL
                AND NOT EXISTS (SELECT FROM taskbell.outbox o WHERE o.task_id = t.id)
                AND NOT EXISTS (SELECT FROM taskbell.lease l WHERE l.task_id = t.id) END
""")
"""The tasks of a range of ids; again nothing may ever come back."""

RANGE_END = Statement("""
SELECT r.id AS until FROM (
    SELECT t.id FROM taskbell.task t WHERE t.id > CAST(:after AS uuid) ORDER BY t.id LIMIT :batch) r
ORDER BY r.id DESC LIMIT 1
""")
"""No row once there is no task any more."""

LATE = Statement(f"""
WITH RECURSIVE {LINE}
SELECT 'I4 partition waits without a head' AS finding, line.task_id FROM line
WHERE {WITHOUT_HEAD}
UNION ALL
SELECT 'lease expired and not reaped', l.task_id FROM taskbell.lease l
WHERE l.expires_at <= clock_timestamp()
""")
"""What maintenance clears within a second or two. Found again later it means that none runs."""
