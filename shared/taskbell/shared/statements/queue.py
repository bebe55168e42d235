"""Queues: what is known of them, and what operators decide about them."""

from taskbell.shared.statement import Statement
from taskbell.shared.statements.bell import ring
from taskbell.shared.statements.operation import log
from taskbell.shared.statements.partition import hand_over

KNOWN = Statement("SELECT q.name AS queue FROM taskbell.queue q ORDER BY q.name")

OVERVIEW = Statement("""
WITH page AS MATERIALIZED (
    SELECT q.* FROM taskbell.queue q
    WHERE q.name > CAST(:after AS text) ORDER BY q.name LIMIT :limit
), running AS (
    SELECT l.queue, count(*) AS leases FROM taskbell.lease l
    WHERE l.queue IN (SELECT p.name FROM page p) GROUP BY l.queue
), held AS (
    SELECT h.queue, count(*) AS partitions FROM taskbell.held_partition h
    WHERE h.queue IN (SELECT p.name FROM page p) GROUP BY h.queue
)
SELECT q.name AS queue, q.paused OR COALESCE(q.paused_until > clock_timestamp(), false) AS paused,
       CASE WHEN NOT q.paused AND q.paused_until > clock_timestamp() THEN q.paused_until END
           AS paused_until,
       q.on_dead, q.depth, q.oldest_age, q.drain_rate, q.measured_at,
       COALESCE(r.leases, 0) AS running, COALESCE(h.partitions, 0) AS held, q.max_depth
FROM page q LEFT JOIN running r ON r.queue = q.name LEFT JOIN held h ON h.queue = q.name
ORDER BY q.name
""")
"""A page of the queues behind a name. One is known once it was measured or something was decided.

What runs and what is held is counted once for all of them.
"""

COUNT_HELD = Statement(
    "SELECT count(*) AS held FROM taskbell.held_partition h WHERE h.queue = :queue"
)

_PAUSED = "SELECT name AS subject, jsonb_build_object('until', paused_until) AS detail FROM changed"

PAUSE = Statement(f"""
WITH changed AS (
    INSERT INTO taskbell.queue AS q (name, paused, paused_until)
    VALUES (:queue, CAST(:seconds AS float8) IS NULL,
            clock_timestamp() + make_interval(secs => CAST(:seconds AS float8)))
    ON CONFLICT (name) DO UPDATE
    SET paused = EXCLUDED.paused, paused_until = EXCLUDED.paused_until
    RETURNING q.name, q.paused_until
), {log("pause", _PAUSED)}
SELECT name AS queue, paused_until FROM changed
""")
"""For so many seconds, or without them until somebody resumes it."""

_RESUMED = "SELECT name AS subject, CAST('{}' AS jsonb) AS detail FROM changed"

RESUME = Statement(f"""
WITH changed AS (
    UPDATE taskbell.queue q SET paused = false, paused_until = NULL
    WHERE q.name = :queue AND (q.paused OR q.paused_until IS NOT NULL)
    RETURNING q.name
), {log("resume", _RESUMED)},
{ring("changed")}
SELECT name AS queue, (SELECT count(*) FROM rung) AS rung FROM changed
""")
"""Answers no row if the queue was not paused."""

_SET = "SELECT name AS subject, jsonb_build_object('on_dead', on_dead) AS detail FROM changed"

SET_ON_DEAD = Statement(f"""
WITH changed AS (
    INSERT INTO taskbell.queue AS q (name, on_dead) VALUES (:queue, :on_dead)
    ON CONFLICT (name) DO UPDATE SET on_dead = EXCLUDED.on_dead
    RETURNING q.name, q.on_dead
), {log("set", _SET)}
SELECT name AS queue, on_dead,
       (SELECT count(*) FROM taskbell.held_partition h WHERE h.queue = name) AS held
FROM changed
""")
"""What is held already stays so until it is released."""

_BOUND = "SELECT name AS subject, jsonb_build_object('max_depth', max_depth) AS detail FROM changed"

SET_MAX_DEPTH = Statement(f"""
WITH changed AS (
    INSERT INTO taskbell.queue AS q (name, max_depth)
    VALUES (:queue, CAST(:max_depth AS bigint))
    ON CONFLICT (name) DO UPDATE SET max_depth = EXCLUDED.max_depth
    RETURNING q.name, q.max_depth
), {log("set", _BOUND)}
SELECT name AS queue, max_depth FROM changed
""")
"""How many due tasks the queue may hold before admission refuses more; null: any number."""

HELD = Statement("""
SELECT h.queue, h.partition_key, h.task_id, h.held_at, t.status,
       (SELECT count(*) FROM taskbell.outbox o
        WHERE o.queue = h.queue AND o.partition_key = h.partition_key AND o.parked) AS waiting
FROM taskbell.held_partition h LEFT JOIN taskbell.task t ON t.id = h.task_id
WHERE h.queue = :queue ORDER BY h.held_at, h.partition_key LIMIT :limit
""")

_RELEASED = """SELECT queue AS subject,
           jsonb_build_object('partition_key', partition_key, 'task_id', task_id) AS detail
    FROM lifted"""

RELEASE = Statement(f"""
WITH holds AS MATERIALIZED (
    SELECT h.task_id FROM taskbell.held_partition h
    WHERE h.queue = :queue AND (CAST(:partition_key AS text) IS NULL OR h.partition_key = :partition_key)
    ORDER BY h.task_id FOR UPDATE
), lifted AS (
    DELETE FROM taskbell.held_partition h WHERE h.task_id = ANY (ARRAY(SELECT task_id FROM holds))
    RETURNING h.task_id, h.queue, h.partition_key
), {hand_over("SELECT queue, partition_key FROM lifted")},
{log("release", _RELEASED)},
{ring("promoted")}
SELECT partition_key, task_id, (SELECT count(*) FROM rung) AS rung FROM lifted
""")
"""Lift the hold of one partition, or of all without a key; the next of each is the head."""

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
