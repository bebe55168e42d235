"""What keeps the tables small and the measures true."""

from taskbell.shared.statement import Statement

TAKE_DUTY = Statement("""
INSERT INTO taskbell.duty AS d (name, ran_at) VALUES (:name, clock_timestamp())
ON CONFLICT (name) DO UPDATE SET ran_at = EXCLUDED.ran_at
WHERE d.ran_at <= clock_timestamp() - make_interval(secs => :interval)
RETURNING d.name, set_config('synchronous_commit', 'off', true)
""")
"""Answers a row to exactly one process of the fleet for each interval."""

PRUNE_TASKS = Statement("""
WITH old AS MATERIALIZED (
    SELECT t.id, t.owner_id, t.idempotency_hash FROM taskbell.task t
    WHERE t.id > CAST(:after AS uuid)
      AND t.id < CAST(lpad(to_hex(CAST(
              extract(epoch FROM clock_timestamp() - make_interval(secs => :keep)) * 1000
              AS bigint)), 12, '0') || '70008000000000000000' AS uuid)
      AND t.status IN ('COMPLETED', 'CANCELLED')
      AND t.finished_at < clock_timestamp() - make_interval(secs => :keep)
    ORDER BY t.id LIMIT :batch FOR UPDATE SKIP LOCKED
), freed AS (
    DELETE FROM taskbell.idempotency i USING old
    WHERE old.idempotency_hash IS NOT NULL AND i.owner_id = old.owner_id
      AND i.key_hash = old.idempotency_hash AND i.task_id = old.id
), forgotten AS (
    DELETE FROM taskbell.failure f WHERE f.task_id = ANY (ARRAY(SELECT id FROM old))
), gone AS (
    DELETE FROM taskbell.task t WHERE t.id = ANY (ARRAY(SELECT id FROM old)) RETURNING t.id
)
SELECT count(*) AS pruned, (SELECT id FROM old ORDER BY id DESC LIMIT 1) AS last_id,
       set_config('synchronous_commit', 'off', true) FROM gone
""")
"""Final tasks that are old enough, from ``after`` on; failed ones stay until they are discarded."""

PRUNE_EFFECTS = Statement("""
WITH old AS MATERIALIZED (
    SELECT e.scope, e.dedup_key FROM taskbell.effect e
    WHERE e.created_at < clock_timestamp() - make_interval(secs => :keep)
      AND (SELECT 1 FROM taskbell.task t WHERE t.id = e.task_id AND t.finished_at IS NULL) IS NULL
    LIMIT :batch FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM taskbell.effect e USING old
    WHERE e.scope = old.scope AND e.dedup_key = old.dedup_key RETURNING e.task_id
)
SELECT count(*) AS pruned, set_config('synchronous_commit', 'off', true) FROM gone
""")

MEASURE = Statement("""
WITH waiting AS (
    SELECT o.queue, count(*) AS depth,
           GREATEST(0, extract(epoch FROM clock_timestamp() - min(o.publish_at))) AS oldest_age
    FROM taskbell.outbox o WHERE o.publish_at <= clock_timestamp() GROUP BY o.queue
), known AS (
    SELECT queue FROM waiting UNION SELECT name FROM taskbell.queue
)
INSERT INTO taskbell.queue AS q (name, depth, oldest_age, drain_rate, measured_at, measured_settled)
SELECT known.queue, COALESCE(w.depth, 0), COALESCE(w.oldest_age, 0), 0, clock_timestamp(), 0
FROM known LEFT JOIN waiting w ON w.queue = known.queue
ORDER BY known.queue
ON CONFLICT (name) DO UPDATE
SET depth = EXCLUDED.depth, oldest_age = EXCLUDED.oldest_age,
    drain_rate = GREATEST(0, COALESCE((q.settled - q.measured_settled)
        / NULLIF(extract(epoch FROM EXCLUDED.measured_at - q.measured_at), 0), 0)),
    measured_at = EXCLUDED.measured_at, measured_settled = q.settled
RETURNING q.name, q.depth, q.oldest_age, q.drain_rate, set_config('synchronous_commit', 'off', true)
""")
"""Depth and oldest age (seconds) of what is due, and tasks settled each second since the last look."""

COUNT_SETTLED = Statement("""
INSERT INTO taskbell.queue AS q (name, settled)
SELECT c.name, c.settled
FROM unnest(CAST(:queues AS text[]), CAST(:counts AS bigint[])) AS c(name, settled)
ORDER BY c.name
ON CONFLICT (name) DO UPDATE SET settled = q.settled + EXCLUDED.settled
RETURNING q.name, set_config('synchronous_commit', 'off', true)
""")

HOT_TABLES_CHURN = Statement("""
SELECT COALESCE(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) AS changes
FROM pg_stat_user_tables WHERE schemaname = 'taskbell' AND relname IN ('outbox', 'lease')
""")

VACUUM = Statement("VACUUM (TRUNCATE off) taskbell.outbox, taskbell.lease")

ATTEND = Statement("""
WITH gone AS (
    DELETE FROM taskbell.worker w WHERE w.seen_at < clock_timestamp() - interval '1 day'
)
INSERT INTO taskbell.worker (worker_id, role, host, pid, running, slots, queues)
VALUES (:worker_id, :role, :host, :pid, :running, :slots, CAST(:queues AS text[]))
ON CONFLICT (worker_id) DO UPDATE SET seen_at = clock_timestamp(), running = EXCLUDED.running
RETURNING worker_id, set_config('synchronous_commit', 'off', true)
""")
"""Say that a process is there. For people: nothing is decided from it."""

DEPART = Statement("DELETE FROM taskbell.worker WHERE worker_id = :worker_id RETURNING worker_id")
