"""One task for its owner, as the HTTP interface shows it."""

from taskbell.shared.forecast import COUNTED
from taskbell.shared.statement import Statement

# Counted by priority, each in the order in which it is served: one walk of the index, which ends at
# the bound, and no other plan. A task that is not due, parked or gone from the outbox has none.
_AHEAD = f"""
    SELECT count(*) AS ahead FROM (
        SELECT FROM generate_series(
            CASE WHEN o.publish_at <= statement_timestamp() AND NOT o.parked THEN o.priority END, 9
        ) AS p(priority)
        CROSS JOIN LATERAL (
            SELECT FROM taskbell.outbox b
            WHERE b.queue = o.queue AND b.priority = p.priority AND NOT b.parked
              AND b.publish_at < CASE WHEN p.priority = o.priority THEN o.publish_at
                                      ELSE statement_timestamp() END
            ORDER BY b.publish_at LIMIT {COUNTED}
        ) one
        LIMIT {COUNTED}
    ) before"""

# The owner stands in the same statement: another owner's task costs and answers what none does.
# One probe of a primary key each; partitions are not looked into, which would take more.
READ = Statement(f"""
SELECT t.id AS task_id, t.type, t.queue, t.owner_id, t.status, t.priority, t.attempt_count AS attempts,
       t.max_attempts, t.partition_key, t.correlation_id, t.created_at, t.scheduled_at, t.started_at,
       t.finished_at, t.error_message, CAST(t.result AS text) AS result, t.result_sealed, t.result_location,
       o.publish_at AS due_at,
       COALESCE(o.parked OR q.paused OR q.paused_until > clock_timestamp(), false) AS held,
       a.ahead, q.depth, q.oldest_age, q.drain_rate,
       COALESCE(l.cancel_requested, false) AS cancel_requested, CAST(l.progress AS text) AS progress,
       clock_timestamp() AS asked_at
FROM taskbell.task t
LEFT JOIN taskbell.outbox o ON o.task_id = t.id
LEFT JOIN taskbell.lease l ON l.task_id = t.id
LEFT JOIN taskbell.queue q ON q.name = t.queue
CROSS JOIN LATERAL ({_AHEAD}
) a
WHERE t.id = CAST(:task_id AS uuid)
  AND (CAST(:owner_id AS text) IS NULL OR t.owner_id = CAST(:owner_id AS text))
""")
"""``owner_id``: null reaches every owner's."""

STATUS_OF_MANY = Statement("""
SELECT t.id AS task_id, t.status FROM taskbell.task t WHERE t.id = ANY (CAST(:task_ids AS uuid[]))
""")
