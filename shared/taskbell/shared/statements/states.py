"""What watchers and operators read, often and for many: states, workers, measures."""

from taskbell.shared.statement import Statement

STATES = Statement("""
SELECT t.id AS task_id, t.status, t.attempt_count AS attempt, md5(CAST(l.progress AS text)) AS progress
FROM taskbell.task t LEFT JOIN taskbell.lease l ON l.task_id = t.id
WHERE t.id = ANY (CAST(:task_ids AS uuid[]))
""")
"""Enough to see that something changed; who is told reads the rest for itself, as its owner."""

OWNERS = Statement("""
SELECT t.id AS task_id, t.owner_id FROM taskbell.task t
WHERE t.id = ANY (CAST(:task_ids AS uuid[]))
""")
"""Whose these are, to open what is sealed for them."""

WORKERS = Statement("""
SELECT w.worker_id, w.role, w.host, w.pid, w.started_at, w.seen_at, w.running, w.slots, w.queues,
       CAST(extract(epoch FROM clock_timestamp() - w.seen_at) AS float8) AS unseen
FROM taskbell.worker w ORDER BY w.role, w.worker_id LIMIT :limit
""")
"""The processes that said they are there; ``unseen``: seconds since they last did."""

MEASURES = Statement("""
WITH shown AS MATERIALIZED (
    SELECT q.name, q.depth, q.oldest_age, q.drain_rate, q.max_depth FROM taskbell.queue q
    WHERE q.measured_at IS NOT NULL ORDER BY q.name LIMIT :most
)
SELECT s.name AS queue, s.depth, s.oldest_age, s.drain_rate, s.max_depth FROM shown s
UNION ALL
SELECT NULL, CAST(sum(q.depth) AS bigint), max(q.oldest_age), sum(q.drain_rate), NULL
FROM taskbell.queue q
WHERE q.measured_at IS NOT NULL AND q.name > (SELECT max(s.name) FROM shown s)
HAVING count(*) > 0
""")
"""What was last measured of the first queues, and of all others together, in a row without a name.

Whoever may submit makes queues, as many as it likes."""

WRITABLE = Statement("""
SELECT pg_is_in_recovery() AS standby,
       current_setting('transaction_read_only') = 'on' AS read_only,
       EXISTS (SELECT FROM taskbell.secret s WHERE s.name = 'cursor') AS secret
""")
"""Whether the database takes writes, and has what the replicas of the HTTP interface share."""

TAKES_WRITES = Statement("""
SELECT current_setting('transaction_read_only') = 'off' AS takes_writes
""")
"""Also false on a standby."""
