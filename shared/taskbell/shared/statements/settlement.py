"""The settlement: end an attempt, once, fenced by (task, attempt, worker).

The lease row is the fence: it is deleted where all three match, and everything else is written only
with what was deleted. The worker and the reaper share the tail, so whether a task is retried or dead
is decided in one place: ``next_status`` in ``lifecycle.py`` is the same decision in Python, and a
test holds the two equal.
"""

from collections.abc import Sequence

from taskbell.shared.lifecycle import Settlement
from taskbell.shared.statement import Statement
from taskbell.shared.statements.bell import ring
from taskbell.shared.statements.commit import RELAXED
from taskbell.shared.statements.partition import hand_over, hold, not_held

_STATUS = """CASE WHEN h.outcome = 'completed' THEN 'COMPLETED'
                      WHEN h.outcome = 'cancelled' OR h.cancel_requested THEN 'CANCELLED'
                      WHEN h.outcome = 'fail' THEN 'FAILED'
                      WHEN h.outcome = 'release' AND t0.attempt_count - t0.refunded <= 1 THEN 'PENDING'
                      WHEN h.outcome IN ('release', 'snooze') THEN 'RETRYING'
                      WHEN t0.attempt_count - t0.refunded >= t0.max_attempts THEN 'FAILED'
                      ELSE 'RETRYING' END"""

_ENDED_BADLY = """SELECT id AS task_id, queue, partition_key FROM done
            WHERE partition_key IS NOT NULL AND status IN ('FAILED', 'CANCELLED')"""

_FREED = f"""SELECT queue, partition_key FROM done
            WHERE partition_key IS NOT NULL AND status = 'COMPLETED'
        UNION {not_held(_ENDED_BADLY)}"""

_TAIL = f"""gone AS (
    DELETE FROM taskbell.lease l WHERE l.task_id = ANY (ARRAY(SELECT task_id FROM held))
), done AS (
    UPDATE taskbell.task t
    SET status = v.status,
        refunded = t.refunded + v.refund,
        finished_at = CASE WHEN v.status IN ('COMPLETED', 'FAILED', 'CANCELLED')
                           THEN clock_timestamp() END,
        result = CASE WHEN v.status = 'COMPLETED' THEN CAST(v.result AS jsonb) END,
        result_sealed = CASE WHEN v.status = 'COMPLETED' THEN v.result_sealed END,
        result_location = CASE WHEN v.status = 'COMPLETED' THEN v.result_location END,
        error_message = CASE WHEN v.status <> 'COMPLETED' THEN COALESCE(v.error, t.error_message) END
    FROM (SELECT h.task_id, h.result, h.result_sealed, h.result_location, h.error,
                 CASE WHEN h.outcome IN ('release', 'snooze') THEN 1 ELSE 0 END AS refund,
                 {_STATUS} AS status
          FROM held h JOIN taskbell.task t0 ON t0.id = h.task_id) v
    WHERE t.id = v.task_id AND t.status = 'IN_PROGRESS'
    RETURNING t.id, t.status, t.queue, t.priority, t.partition_key, t.partition_seq,
              t.owner_id, t.type, t.attempt_count, t.error_message
), again AS (
    INSERT INTO taskbell.outbox (task_id, queue, priority, publish_at, partition_key, partition_seq)
    SELECT d.id, d.queue, d.priority, clock_timestamp() + make_interval(secs => h.delay),
           d.partition_key, d.partition_seq
    FROM done d JOIN held h ON h.task_id = d.id WHERE d.status IN ('PENDING', 'RETRYING')
    ON CONFLICT (task_id) DO NOTHING
    RETURNING task_id
), buried AS (
    INSERT INTO taskbell.dead_letter (task_id, failed_at, attempt_count, owner_id, queue, type,
                                      partition_key, error_class, fingerprint, last_error, worker_id)
    SELECT d.id, clock_timestamp(), d.attempt_count, d.owner_id, d.queue, d.type,
           d.partition_key, h.error_class, h.fingerprint, d.error_message, h.worker_id
    FROM done d JOIN held h ON h.task_id = d.id WHERE d.status = 'FAILED'
    ON CONFLICT (task_id) DO UPDATE
    SET failed_at = EXCLUDED.failed_at, attempt_count = EXCLUDED.attempt_count,
        error_class = EXCLUDED.error_class, fingerprint = EXCLUDED.fingerprint,
        last_error = EXCLUDED.last_error, worker_id = EXCLUDED.worker_id
), recorded AS (
    INSERT INTO taskbell.failure (task_id, attempt, outcome, worker_id, error_class, error, traceback)
    SELECT h.task_id, h.attempt, h.outcome, h.worker_id, h.error_class, h.error, h.traceback
    FROM held h WHERE h.outcome IN ('retry', 'fail', 'lost')
    ON CONFLICT (task_id, attempt) DO NOTHING
), {hold(_ENDED_BADLY)}, {hand_over(_FREED)}, {ring("again", "promoted")}"""

SETTLE = Statement(f"""
WITH ask AS MATERIALIZED (
    SELECT * FROM unnest(CAST(:task_ids AS uuid[]), CAST(:attempts AS integer[]),
                         CAST(:outcomes AS text[]), CAST(:delays AS float8[]),
                         CAST(:results AS text[]), CAST(:error_classes AS text[]),
                         CAST(:fingerprints AS text[]), CAST(:errors AS text[]),
                         CAST(:tracebacks AS text[]), CAST(:results_sealed AS bytea[]),
                         CAST(:result_locations AS text[]))
           AS a(task_id, attempt, outcome, delay, result, error_class, fingerprint, error, traceback,
                result_sealed, result_location)
), held AS MATERIALIZED (
    SELECT l.task_id, l.attempt, l.worker_id, l.cancel_requested, a.outcome, a.delay, a.result,
           a.result_sealed, a.result_location, a.error_class, a.fingerprint, a.error, a.traceback
    FROM ask a JOIN taskbell.lease l ON l.task_id = a.task_id AND l.attempt = a.attempt
    WHERE l.worker_id = :worker_id
    ORDER BY l.task_id FOR UPDATE OF l
), {_TAIL}
SELECT a.task_id, a.attempt,
       COALESCE(d.status, CASE WHEN t.id IS NOT NULL THEN 'already ' || t.status
                               WHEN (SELECT 1 FROM taskbell.failure f
                                     WHERE f.task_id = a.task_id AND f.attempt = a.attempt
                                       AND f.worker_id = :worker_id AND f.outcome = 'retry')
                                    IS NOT NULL THEN 'already RETRYING'
                               ELSE 'lost' END) AS answer,
       (SELECT count(*) FROM rung) AS rung
FROM ask a LEFT JOIN done d ON d.id = a.task_id AND d.attempt_count = a.attempt
LEFT JOIN taskbell.task t ON d.id IS NULL AND t.id = a.task_id AND t.attempt_count = a.attempt
     AND t.status IN ('COMPLETED', 'FAILED', 'CANCELLED')
""")
"""Answers the new status; ``already …`` when this attempt's settlement had been committed before
(the repeat after an unknown commit; a failed try shows by its ``failure`` row, a release or snooze
by nothing); or ``lost``."""


def columns_of(settlements: Sequence[Settlement]) -> dict[str, object]:
    """Write settlements as the parameters of ``SETTLE``, but for the worker's name."""
    diagnoses = [each.diagnosis for each in settlements]
    return {
        "task_ids": [each.task_id for each in settlements],
        "attempts": [each.attempt for each in settlements],
        "outcomes": [each.verdict for each in settlements],
        "delays": [float(each.delay) for each in settlements],
        "results": [each.result for each in settlements],
        "error_classes": [each.error_class if each else None for each in diagnoses],
        "fingerprints": [each.fingerprint if each else None for each in diagnoses],
        "errors": [each.error if each else None for each in diagnoses],
        "tracebacks": [each.traceback if each else None for each in diagnoses],
        "results_sealed": [each.result_sealed for each in settlements],
        "result_locations": [each.result_location for each in settlements],
    }


SETTLE_COMPLETED = Statement(f"""
WITH ask AS MATERIALIZED (
    SELECT * FROM unnest(CAST(:task_ids AS uuid[]), CAST(:attempts AS integer[]))
           AS a(task_id, attempt)
), held AS MATERIALIZED (
    SELECT l.task_id, l.queue, l.partition_key
    FROM ask a JOIN taskbell.lease l ON l.task_id = a.task_id AND l.attempt = a.attempt
    WHERE l.worker_id = :worker_id
    ORDER BY l.task_id FOR UPDATE OF l
), gone AS (
    DELETE FROM taskbell.lease l WHERE l.task_id = ANY (ARRAY(SELECT task_id FROM held))
), done AS (
    UPDATE taskbell.task t
    SET status = 'COMPLETED', finished_at = clock_timestamp(), error_message = NULL
    WHERE t.id = ANY (ARRAY(SELECT task_id FROM held)) AND t.status = 'IN_PROGRESS'
    RETURNING t.id, t.attempt_count
), {hand_over("SELECT DISTINCT queue, partition_key FROM held WHERE partition_key IS NOT NULL")},
{ring("promoted")}
SELECT id AS task_id, attempt_count AS attempt, (SELECT count(*) FROM rung) AS rung FROM done
""")
"""Completions without a result, the hot path. What does not come back asks ``SETTLE`` why."""

REAP = Statement(f"""
WITH held AS MATERIALIZED (
    SELECT l.task_id, l.attempt, l.worker_id, l.cancel_requested, 'lost' AS outcome,
           CAST(0 AS float8) AS delay, CAST(NULL AS text) AS result,
           CAST(NULL AS bytea) AS result_sealed, CAST(NULL AS text) AS result_location,
           'LeaseExpired' AS error_class, 'LeaseExpired' AS fingerprint,
           'the lease expired' AS error, CAST(NULL AS text) AS traceback
    FROM taskbell.lease l WHERE l.expires_at <= clock_timestamp()
    LIMIT :batch FOR UPDATE OF l SKIP LOCKED
), {_TAIL}
SELECT h.task_id, h.attempt, h.worker_id, d.status, (SELECT count(*) FROM rung) AS rung
FROM held h LEFT JOIN done d ON d.id = h.task_id
WHERE {RELAXED}
""")
"""Take back expired leases: due at once, or dead when the tries are used up. Needs no handler."""
