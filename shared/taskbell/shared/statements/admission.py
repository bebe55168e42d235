"""Admission: what a birth asks of queue and bucket, and the limits that operators set.

A bucket is refilled when somebody looks: it holds what it held at ``refilled_at`` and what its rate
brought since, up to its burst.
"""

from dataclasses import dataclass

from taskbell.shared.statement import Statement
from taskbell.shared.statements.operation import log

_THERE = """LEAST(r.burst, r.tokens + r.rate * CAST(GREATEST(0,
               extract(epoch FROM clock_timestamp() - r.refilled_at)) AS float8))"""

_ID_TAKEN = "(SELECT 1 FROM taskbell.task x WHERE x.id = {id})"
_KEY_KNOWN = "(SELECT 1 FROM known LIMIT 1)"

ONE = f"{_ID_TAKEN.format(id='CAST(:id AS uuid)')} IS NULL"
"""Whether the task asked for would be a new one; ``KEYED_ONE`` also if its key is new."""

KEYED_ONE = f"{ONE} AND {_KEY_KNOWN} IS NULL"

EACH = f"{_ID_TAKEN.format(id='a.id')} IS NULL"
"""The same for a row ``a`` of the CTE ``ask``."""

KEYED_EACH = f"""{EACH}
      AND (a.key_hash IS NULL
           OR (a.owner_id, a.key_hash) NOT IN (SELECT k.owner_id, k.key_hash FROM known k))"""


@dataclass(frozen=True, slots=True)
class Asking:
    """The pieces of a birth that asks; each is empty in one that does not."""

    ctes: str = ""
    """Follow another CTE; ``shut`` has a row if the birth is refused, and says why."""
    where: str = ""
    also: str = ""
    """The condition that nothing is shut, as the only one and as a further one."""
    told: str = ""
    """The row of ``shut`` as JSON, and with rates whether the owner has one."""


_NO_ROOM = "COALESCE(q.depth, 0) >= q.max_depth"

# In a CASE, lest the planner look first for what only matters once the queue is full.
_ONE_QUEUE = f"""SELECT q.name AS full_queue, q.depth, q.max_depth, q.drain_rate
    FROM taskbell.queue q
    WHERE q.name = CAST(:queue AS text) AND CASE WHEN {_NO_ROOM} THEN {{new}} END"""

_QUEUES = f"""SELECT q.name AS full_queue, q.depth, q.max_depth, q.drain_rate
    FROM taskbell.queue q
    WHERE CASE WHEN {_NO_ROOM} THEN
          (SELECT 1 FROM ask a WHERE a.queue = q.name AND {{new}} LIMIT 1) = 1 END
    ORDER BY q.name LIMIT 1"""

_ONE_BUCKET = f"""SELECT r.name, r.rate, CAST(1 AS float8) AS need,
           {_THERE} AS tokens, clock_timestamp() AS at
    FROM taskbell.rate_limit r
    WHERE r.scope = 'owner' AND r.name = CAST(:owner_id AS text)
      AND NOT EXISTS (SELECT FROM crowded) AND CASE WHEN r.rate > 0 THEN {{new}} END
    FOR UPDATE"""

# A key or an id that is given twice is one task, and one token. Rows go in one order, so that
# overlapping batches never deadlock.
_BUCKETS = f"""SELECT r.name, r.rate, o.need, {_THERE} AS tokens, clock_timestamp() AS at
    FROM (SELECT a.owner_id, CAST(count(DISTINCT {{one}}) AS float8) AS need
          FROM ask a WHERE {{new}} GROUP BY a.owner_id) o
    JOIN taskbell.rate_limit r ON r.scope = 'owner' AND r.name = o.owner_id
    WHERE NOT EXISTS (SELECT FROM crowded)
    ORDER BY r.name COLLATE "C" FOR UPDATE OF r"""

_SHUT = """shut AS MATERIALIZED (
    SELECT c.full_queue, c.depth, c.max_depth, c.drain_rate,
           CAST(NULL AS text) AS limited_owner, CAST(NULL AS float8) AS tokens,
           CAST(NULL AS float8) AS need, CAST(NULL AS float8) AS rate
    FROM crowded c
    UNION ALL
    (SELECT NULL, NULL, NULL, NULL, b.name, b.tokens, b.need, b.rate
     FROM bucket b WHERE b.tokens < b.need ORDER BY b.name LIMIT 1)
)"""

# What was counted at ``at`` is what the lock showed; whoever comes next counts from there.
_DEBIT = """debit AS (
    UPDATE taskbell.rate_limit r SET tokens = b.tokens - b.need, refilled_at = b.at
    FROM bucket b
    WHERE r.scope = 'owner' AND r.name = b.name AND NOT EXISTS (SELECT FROM shut)
)"""

_OPEN = "NOT EXISTS (SELECT FROM shut)"
# As one text, which is null for nearly all: a column more is read for every task.
_TOLD = """,
       (SELECT CAST(to_jsonb(s) AS text) FROM shut s) AS shut"""
_RATED_TOLD = f"""{_TOLD},
       EXISTS (SELECT FROM taskbell.rate_limit r
               WHERE r.scope = 'owner' AND r.name = {{owner}}) AS rated"""


def asking_of_one(*, key: bool, rated: bool) -> Asking:
    """Return the pieces for one task; ``key``: behind ``known``; ``rated``: take a token, too."""
    new = KEYED_ONE if key else ONE
    buckets = _ONE_BUCKET.format(new=new) if rated else None
    return _asking(_ONE_QUEUE.format(new=new), buckets, "CAST(:owner_id AS text)")


def asking_of_many(*, key: bool, rated: bool) -> Asking:
    """Return the pieces for the rows of ``ask``, all of which are admitted or none."""
    new = KEYED_EACH if key else EACH
    one = "COALESCE(a.key_hash, uuid_send(a.id))" if key else "a.id"
    buckets = _BUCKETS.format(new=new, one=one) if rated else None
    return _asking(_QUEUES.format(new=new), buckets, "a.owner_id")


def _asking(queues: str, buckets: str | None, owner: str) -> Asking:
    if buckets is None:
        ctes, told = f", shut AS MATERIALIZED (\n    {queues}\n)", _TOLD
    else:
        told = _RATED_TOLD.format(owner=owner)
        ctes = f""", crowded AS MATERIALIZED (
    {queues}
), bucket AS MATERIALIZED (
    {buckets}
), {_SHUT}, {_DEBIT}"""
    return Asking(
        ctes=ctes,
        where=f"\n    WHERE {_OPEN}",
        also=f"\n      AND {_OPEN}",
        told=told,
    )


LOOK = Statement(f"""
WITH ask AS MATERIALIZED (
    SELECT * FROM unnest(CAST(:owner_ids AS text[]), CAST(:key_hashes AS bytea[]),
                         CAST(:queues AS text[]))
    WITH ORDINALITY AS a(owner_id, key_hash, queue, n)
), known AS MATERIALIZED (
    SELECT a.n, i.task_id, i.request_hash
    FROM ask a JOIN taskbell.idempotency i ON i.owner_id = a.owner_id AND i.key_hash = a.key_hash
), shut AS MATERIALIZED (
    SELECT q.name AS full_queue, q.depth, q.max_depth, q.drain_rate
    FROM taskbell.queue q
    WHERE q.name = ANY (ARRAY(SELECT a.queue FROM ask a WHERE a.n NOT IN (SELECT n FROM known)))
      AND {_NO_ROOM}
    ORDER BY q.name LIMIT 1
)
SELECT CAST(k.n - 1 AS integer) AS place, k.task_id, k.request_hash,
       (SELECT CAST(to_jsonb(s) AS text) FROM shut s) AS shut
FROM (SELECT) AS one LEFT JOIN known k ON true
""")
"""Look, before anything is stored for a birth, what would come of it.

Answers a row for each place whose key is known, or one of nulls; in each ``shut``, the JSON of a
``Verdict`` if the queue of a place that is not known is full.
"""

TAKE = Statement(f"""
WITH bucket AS MATERIALIZED (
    SELECT r.scope, r.name, r.rate, r.burst, {_THERE} AS tokens, clock_timestamp() AS at
    FROM taskbell.rate_limit r
    WHERE (r.scope, r.name) IN (
        SELECT w.scope, w.name
        FROM unnest(CAST(:scopes AS text[]), CAST(:names AS text[])) AS w(scope, name))
    ORDER BY r.scope, r.name COLLATE "C" FOR UPDATE
), portion AS MATERIALIZED (
    SELECT b.*, LEAST(b.tokens, GREATEST(CAST(:count AS float8),
                                         LEAST(b.rate / 10, b.burst / 4))) AS portion
    FROM bucket b WHERE NOT EXISTS (SELECT FROM bucket s WHERE s.tokens < CAST(:count AS float8))
), debit AS (
    UPDATE taskbell.rate_limit r SET tokens = p.tokens - p.portion, refilled_at = p.at
    FROM portion p WHERE r.scope = p.scope AND r.name = p.name
)
SELECT b.scope, b.name, b.rate, b.tokens, COALESCE(p.portion, 0) AS portion,
       set_config('synchronous_commit', 'off', true)
FROM bucket b LEFT JOIN portion p ON p.scope = b.scope AND p.name = b.name
ORDER BY b.scope, b.name
""")
"""Take ``count`` tokens or a portion to spend from each of these buckets, or from none of them.

A portion is a tenth of a second's tokens, a quarter of the bucket at most, and never less than
``count``. Answers the buckets that there are.
"""

_RATED = """SELECT scope || ' ' || name AS subject,
           jsonb_build_object('rate', rate, 'burst', burst) AS detail FROM changed"""

SET_RATE = Statement(f"""
WITH changed AS (
    INSERT INTO taskbell.rate_limit AS r (scope, name, rate, burst, tokens)
    VALUES (CAST(:scope AS text), CAST(:name AS text), CAST(:rate AS float8),
            CAST(:burst AS float8), CAST(:burst AS float8))
    ON CONFLICT (scope, name) DO UPDATE
    SET rate = EXCLUDED.rate, burst = EXCLUDED.burst,
        tokens = LEAST(EXCLUDED.burst, {_THERE}), refilled_at = clock_timestamp()
    RETURNING r.scope, r.name, r.rate, r.burst
), {log("limit", _RATED)}
SELECT scope, name, rate, burst FROM changed
""")
"""A new bucket is full; one that is there keeps what it holds, as far as it still fits."""

_UNRATED = "SELECT scope || ' ' || name AS subject, CAST('{}' AS jsonb) AS detail FROM changed"

REMOVE_RATE = Statement(f"""
WITH changed AS (
    DELETE FROM taskbell.rate_limit r WHERE r.scope = :scope AND r.name = :name
    RETURNING r.scope, r.name
), {log("unlimit", _UNRATED)}
SELECT scope, name FROM changed
""")
"""Answers no row if there was no limit."""

RATES = Statement(f"""
SELECT r.scope, r.name, r.rate, r.burst, {_THERE} AS tokens
FROM taskbell.rate_limit r ORDER BY r.scope DESC, r.name
""")
