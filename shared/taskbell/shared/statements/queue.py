"""What is known of queues."""

from taskbell.shared.statement import Statement

KNOWN = Statement("SELECT q.name AS queue FROM taskbell.queue q ORDER BY q.name")

HOLD = Statement("""
WITH holder AS MATERIALIZED (
    SELECT l.queue FROM taskbell.lease l
    WHERE l.task_id = CAST(:task_id AS uuid) AND l.attempt = :attempt AND l.worker_id = :worker_id
    FOR UPDATE
)
INSERT INTO taskbell.queue AS q (name, paused_until)
SELECT h.queue, clock_timestamp() + make_interval(secs => :delay) FROM holder h
ON CONFLICT (name) DO UPDATE SET paused_until = GREATEST(q.paused_until, EXCLUDED.paused_until)
RETURNING q.name
""")
"""Claim nothing of the holder's queue for so many seconds; the settlement follows in the same
transaction, for which the lease is locked. Answers no row to whoever does not hold the lease."""
