"""Dead letters: read them, make their tasks PENDING again, or let them go for good."""

from collections.abc import Collection
from functools import cache

from taskbell.shared.statement import Statement
from taskbell.shared.statements.bell import ring
from taskbell.shared.statements.operation import log
from taskbell.shared.statements.partition import hand_over, lift

FILTERS = ("queue", "type", "owner_id", "fingerprint")
"""The columns that may narrow a reading; each is then a parameter of the same name."""


_FIRST = "CAST('-infinity' AS timestamptz), CAST('00000000-0000-0000-0000-000000000000' AS uuid)"
_LAST = "CAST('infinity' AS timestamptz), CAST('ffffffff-ffff-ffff-ffff-ffffffffffff' AS uuid)"


def _only(filters: Collection[str]) -> str:
    return "".join(
        f"\n  AND d.{name} = CAST(:{name} AS text)" for name in FILTERS if name in filters
    )


def _placed(filters: Collection[str]) -> tuple[str, str]:
    """How the columns of a letter's place begin, and their values: with its owner, if asked for.

    One owner's letters are a range of their index. With "owner_id = x" a plan for any parameter may
    prefer to walk everybody's and look for those of an owner who perhaps has none.
    """
    return ("d.owner_id, ", "CAST(:owner_id AS text), ") if "owner_id" in filters else ("", "")


# One statement for each set of filters: with "… IS NULL OR …" no index could be chosen.


@cache
def newest(filters: frozenset[str]) -> Statement:
    """Dead letters that failed before ``(before_at, before_id)``, the newest first."""
    whose, owner = _placed(filters)
    return Statement(f"""
SELECT d.task_id, d.failed_at, d.attempt_count, d.owner_id, d.queue, d.type, d.partition_key,
       d.error_class, d.fingerprint, d.last_error, d.worker_id
FROM taskbell.dead_letter d
WHERE ({whose}d.failed_at, d.task_id)
      < ({owner}CAST(:before_at AS timestamptz), CAST(:before_id AS uuid))
  AND ({whose}d.failed_at, d.task_id) >= ({owner}{_FIRST}){_only(filters - {"owner_id"})}
ORDER BY {whose.replace(",", " DESC,")}d.failed_at DESC, d.task_id DESC LIMIT :limit
""")


@cache
def oldest(filters: frozenset[str]) -> Statement:
    """Ids of dead letters after ``(after_at, after_id)`` and not after ``until``, oldest first.

    Without the end a redrive would meet again what died again meanwhile.
    """
    whose, owner = _placed(filters)
    return Statement(f"""
SELECT d.task_id, d.failed_at FROM taskbell.dead_letter d
WHERE ({whose}d.failed_at, d.task_id)
      > ({owner}CAST(:after_at AS timestamptz), CAST(:after_id AS uuid))
  AND ({whose}d.failed_at, d.task_id) <= ({owner}{_LAST})
  AND d.failed_at <= CAST(:until AS timestamptz){_only(filters - {"owner_id"})}
ORDER BY {whose}d.failed_at, d.task_id LIMIT :batch
""")


@cache
def count(filters: frozenset[str]) -> Statement:
    """How many there are."""
    return Statement(f"""
SELECT count(*) AS dead_letters FROM taskbell.dead_letter d WHERE true{_only(filters)}
""")


@cache
def causes(filters: frozenset[str]) -> Statement:
    """One row for each fingerprint, the most frequent first, with its newest letter as example."""
    whose, owner = _placed(filters)
    only = _only(filters - {"owner_id"})
    return Statement(f"""
WITH cause AS MATERIALIZED (
    SELECT d.fingerprint, count(*) AS dead_letters,
           min(d.failed_at) AS first_failed_at, max(d.failed_at) AS last_failed_at
    FROM taskbell.dead_letter d
    WHERE ({whose}d.failed_at, d.task_id) >= ({owner}{_FIRST})
      AND ({whose}d.failed_at, d.task_id) <= ({owner}{_LAST}){only}
    GROUP BY d.fingerprint ORDER BY count(*) DESC, max(d.failed_at) DESC LIMIT :limit
)
SELECT c.fingerprint, c.dead_letters, c.first_failed_at, c.last_failed_at,
       x.task_id AS example, x.type, x.queue, x.error_class, x.last_error
FROM cause c
LEFT JOIN LATERAL (
    SELECT d.task_id, d.type, d.queue, d.error_class, d.last_error FROM taskbell.dead_letter d
    WHERE d.fingerprint = c.fingerprint AND d.failed_at = c.last_failed_at{_only(filters)}
    ORDER BY d.task_id DESC LIMIT 1) x ON true
ORDER BY c.dead_letters DESC, c.last_failed_at DESC
""")


ONE = Statement("""
SELECT d.task_id, d.failed_at, d.attempt_count, d.owner_id, d.queue, d.type, d.partition_key,
       d.error_class, d.fingerprint, d.last_error, d.worker_id
FROM taskbell.dead_letter d
WHERE d.task_id = CAST(:task_id AS uuid)
  AND (CAST(:owner_id AS text) IS NULL OR d.owner_id = CAST(:owner_id AS text))
""")

HISTORY = Statement("""
SELECT f.attempt, f.failed_at, f.outcome, f.worker_id, f.error_class, f.error, f.traceback
FROM (SELECT * FROM taskbell.failure x WHERE x.task_id = CAST(:task_id AS uuid)
      ORDER BY x.attempt DESC LIMIT 100) f
ORDER BY f.attempt
""")
"""The last hundred failed attempts of a task, also those before it was redriven."""

_PICKED = """picked AS MATERIALIZED (
    SELECT d.task_id FROM taskbell.dead_letter d
    WHERE d.task_id = ANY (CAST(:task_ids AS uuid[])) ORDER BY d.task_id FOR UPDATE
), raised AS (
    DELETE FROM taskbell.dead_letter d WHERE d.task_id = ANY (ARRAY(SELECT task_id FROM picked))
    RETURNING d.task_id, d.queue, d.type, d.fingerprint
)"""

_RAISED = """SELECT CAST(r.task_id AS text) AS subject,
           jsonb_build_object('queue', r.queue, 'type', r.type, 'cause', r.fingerprint) AS detail
    FROM raised r"""

REDRIVE = Statement(f"""
WITH {_PICKED}, {lift("raised")}, again AS (
    UPDATE taskbell.task t SET status = 'PENDING', finished_at = NULL, refunded = t.attempt_count
    WHERE t.id = ANY (ARRAY(SELECT task_id FROM raised)) AND t.status = 'FAILED'
    RETURNING t.id AS task_id, t.queue, t.priority, t.partition_key, t.partition_seq
), delay AS MATERIALIZED (
    SELECT a.task_id, max(a.seconds) AS seconds
    FROM unnest(CAST(:task_ids AS uuid[]), CAST(:delays AS float8[])) AS a(task_id, seconds)
    GROUP BY a.task_id
), entered AS (
    INSERT INTO taskbell.outbox (task_id, queue, priority, publish_at, parked, partition_key,
                                 partition_seq)
    SELECT a.task_id, a.queue, a.priority,
           (SELECT clock_timestamp()) + make_interval(secs => d.seconds),
           a.partition_key IS NOT NULL AND l.task_id IS NULL, a.partition_key, a.partition_seq
    FROM again a JOIN delay d ON d.task_id = a.task_id LEFT JOIN lifted l ON l.task_id = a.task_id
    ON CONFLICT (task_id) DO NOTHING
), {log("redrive", _RAISED)},
{ring("again")}
SELECT a.task_id, (SELECT count(*) FROM rung) AS rung FROM again a
""")
"""A fresh budget of tries, and no attempt number used twice: what was used is refunded.

Of two at once one gets the row. A task of a partition parks; its number makes it the next. One that
held its partition is its head at once: nobody else can be while the hold is there.
"""

DISCARD = Statement(f"""
WITH {_PICKED}, {lift("raised")}, freed AS (
    DELETE FROM taskbell.idempotency i USING taskbell.task t
    WHERE t.id = ANY (ARRAY(SELECT task_id FROM raised))
      AND i.owner_id = t.owner_id AND i.key_hash = t.idempotency_hash AND i.task_id = t.id
), forgotten AS (
    DELETE FROM taskbell.failure f WHERE f.task_id = ANY (ARRAY(SELECT task_id FROM raised))
), discarded AS (
    DELETE FROM taskbell.task t
    WHERE t.id = ANY (ARRAY(SELECT task_id FROM raised)) AND t.status = 'FAILED'
    RETURNING t.id AS task_id
), {hand_over("SELECT queue, partition_key FROM lifted")},
{log("discard", _RAISED)},
{ring("promoted")}
SELECT d.task_id, (SELECT count(*) FROM rung) AS rung FROM discarded d
""")
"""Deletes the task with its diagnosis, its failure history and its idempotency key.

If it held its partition, the next of it is the head.
"""
