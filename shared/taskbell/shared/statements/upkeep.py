"""What keeps the tables small and the measures true."""

from taskbell.shared.statement import Statement

TAKE_DUTY = Statement("""
WITH last AS MATERIALIZED (
    SELECT CAST(extract(epoch FROM d.ran_at) AS float8)
           - CAST(extract(epoch FROM clock_timestamp()) AS float8) + :interval AS due_in
    FROM taskbell.duty d WHERE d.name = :name
), taken AS (
    INSERT INTO taskbell.duty AS d (name, ran_at)
    SELECT CAST(:name AS text), clock_timestamp()
    WHERE (SELECT due_in > 0 FROM last) IS NOT TRUE
    ON CONFLICT (name) DO UPDATE SET ran_at = EXCLUDED.ran_at
    WHERE d.ran_at <= clock_timestamp() - make_interval(secs => :interval)
    RETURNING d.ran_at, set_config('synchronous_commit', 'off', true)
)
SELECT (SELECT ran_at FROM taken) AS taken_at, GREATEST(0, (SELECT due_in FROM last)) AS due_in
""")
"""Answers an instant to exactly one process of the fleet for each interval.

The others are told in how many seconds it is due: a read, which locks and writes nothing.
"""

REST_DUTY = Statement("""
UPDATE taskbell.duty
SET ran_at = clock_timestamp() + make_interval(secs => :rest) - make_interval(secs => :interval)
WHERE name = :name AND ran_at = :taken_at
RETURNING name, set_config('synchronous_commit', 'off', true)
""")
"""Let the duty be due in ``rest`` seconds, unless somebody has taken it again meanwhile."""

PRUNE_TASKS = Statement("""
WITH seen AS MATERIALIZED (
    SELECT t.id, t.status IN ('COMPLETED', 'CANCELLED')
           AND t.finished_at < clock_timestamp() - make_interval(secs => :keep) AS old
    FROM taskbell.task t
    WHERE t.id > CAST(:after AS uuid)
      AND t.id < (SELECT CAST(lpad(to_hex(CAST(GREATEST(0,
              extract(epoch FROM clock_timestamp() - make_interval(secs => :keep))) * 1000
              AS bigint)), 12, '0') || '70008000000000000000' AS uuid))
    ORDER BY t.id LIMIT :batch
), old AS MATERIALIZED (
    SELECT t.id, t.owner_id, t.idempotency_hash FROM taskbell.task t
    WHERE t.id = ANY (ARRAY(SELECT id FROM seen WHERE old)) AND t.status IN ('COMPLETED', 'CANCELLED')
    ORDER BY t.id FOR UPDATE SKIP LOCKED
), freed AS (
    DELETE FROM taskbell.idempotency i USING old
    WHERE old.idempotency_hash IS NOT NULL AND i.owner_id = old.owner_id
      AND i.key_hash = old.idempotency_hash AND i.task_id = old.id
), forgotten AS (
    DELETE FROM taskbell.failure f WHERE f.task_id = ANY (ARRAY(SELECT id FROM old))
), gone AS (
    DELETE FROM taskbell.task t WHERE t.id = ANY (ARRAY(SELECT id FROM old)) RETURNING t.id
)
SELECT count(*) AS pruned, (SELECT count(*) FROM seen) AS seen,
       (SELECT id FROM seen ORDER BY id DESC LIMIT 1) AS last_id,
       set_config('synchronous_commit', 'off', true)
FROM gone
""")
"""Look at ``batch`` tasks from ``after`` on and delete those that ended well and long ago.

Failed ones stay until they are discarded; passing them by costs a look at each.
"""

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
    SELECT queue FROM waiting
    UNION SELECT name FROM taskbell.queue
    WHERE (depth = 0 AND drain_rate = 0 AND settled = measured_settled) IS NOT TRUE
)
INSERT INTO taskbell.queue AS q (name, depth, oldest_age, drain_rate, measured_at, measured_settled)
SELECT known.queue, COALESCE(w.depth, 0), COALESCE(w.oldest_age, 0), 0, clock_timestamp(), 0
FROM known LEFT JOIN waiting w ON w.queue = known.queue
ORDER BY known.queue
ON CONFLICT (name) DO UPDATE
SET depth = EXCLUDED.depth, oldest_age = EXCLUDED.oldest_age,
    drain_rate = GREATEST(0, COALESCE((q.settled - q.measured_settled)
        / NULLIF(CASE WHEN q.depth = 0 AND q.drain_rate = 0
                      THEN LEAST(:interval, extract(epoch FROM EXCLUDED.measured_at - q.measured_at))
                      ELSE extract(epoch FROM EXCLUDED.measured_at - q.measured_at) END, 0), 0)),
    measured_at = EXCLUDED.measured_at, measured_settled = q.settled
RETURNING q.name, q.depth, q.oldest_age, q.drain_rate, set_config('synchronous_commit', 'off', true)
""")
"""Depth and oldest age (seconds) of what is due, and tasks settled each second since the last look.

The row of an idle queue is left alone once it says so; when work comes again, the last look was an
``interval`` ago.
"""

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

VACUUM = Statement("VACUUM (TRUNCATE off, SKIP_LOCKED) taskbell.outbox, taskbell.lease")
"""Passes by a table that somebody else vacuums, analyses, indexes or locks."""

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

FORGET_LISTENERS = Statement("""
DELETE FROM taskbell.bell WHERE listen_until < clock_timestamp() - interval '1 hour'
RETURNING listener_id, set_config('synchronous_commit', 'off', true)
""")
"""Listeners that died without leaving."""

FORGET_QUEUES = Statement("""
WITH idle AS MATERIALIZED (
    SELECT q.name FROM taskbell.queue q
    WHERE q.measured_at < clock_timestamp() - interval '1 hour'
      AND q.depth = 0 AND q.drain_rate = 0 AND q.settled = q.measured_settled
      AND NOT q.paused AND q.on_dead = 'continue'
      AND num_nonnulls(q.paused_until, q.max_depth, q.max_running, q.rate_limit, q.rate_burst) = 0
      AND NOT EXISTS (SELECT FROM taskbell.outbox o WHERE o.queue = q.name AND NOT o.parked)
      AND NOT EXISTS (SELECT FROM taskbell.outbox o WHERE o.queue = q.name AND o.parked)
      AND NOT EXISTS (SELECT FROM taskbell.held_partition h WHERE h.queue = q.name)
      AND q.name NOT IN (SELECT l.queue FROM taskbell.lease l)
    LIMIT :batch FOR UPDATE SKIP LOCKED
)
DELETE FROM taskbell.queue q WHERE q.name = ANY (ARRAY(SELECT name FROM idle))
RETURNING q.name, set_config('synchronous_commit', 'off', true)
""")
"""Queues that are empty, for which nobody set anything and in which nothing happened for an hour.

Whoever names queues freely would else fill the table. One comes back with its next task.
"""

DEPART = Statement("DELETE FROM taskbell.worker WHERE worker_id = :worker_id RETURNING worker_id")
