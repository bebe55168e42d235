"""The birth of tasks: idempotency key, ``task`` and ``outbox`` in one statement.

The only SQL of the producer. Each text runs in the caller's transaction, answers one row per task
asked for (``task_id, created, same_request, rung``; for a batch ``task_id`` is null where it is the
id that was asked for) and never raises because a task, an id or a key is already there. One that
asks for admission appends ``shut``, the JSON of an ``admission.Verdict``, and writes nothing unless
that is null; one that asks for rates also ``rated``, whether the owner has one.
"""

from dataclasses import dataclass
from functools import cache

from taskbell.producer.gate import Gate
from taskbell.shared.statement import Statement
from taskbell.shared.statements.admission import Asking, asking_of_many, asking_of_one
from taskbell.shared.statements.bell import ring

_TASK_COLUMNS = """id, owner_id, type, queue, partition_key, partition_seq, correlation_id,
        traceparent, scheduled_at, max_attempts, priority, payload"""
_KEPT_COLUMNS = f"{_TASK_COLUMNS}, payload_sealed, payload_location"

# A task whose id is taken is left alone, and a key that comes with it is not recorded: a key goes
# with the task that was born with it, so this one would stay and stand for nothing. (Unless both
# are born at the same moment: nobody may mint an id twice.) What the outbox needs comes back.
_UNLESS_THERE = """ON CONFLICT (id) DO NOTHING
    RETURNING id, queue, priority, scheduled_at, partition_key, partition_seq"""

# A task with a partition key always starts parked: whether it is the head cannot be told from the
# snapshot of one of two concurrent transactions. The promoter tells.
_ENTRY = """o AS (
    INSERT INTO taskbell.outbox
        (task_id, queue, priority, publish_at, parked, partition_key, partition_seq)
    SELECT id, queue, priority, scheduled_at, partition_key IS NOT NULL,
           partition_key, partition_seq
    FROM t
)"""

_VALUES = """:owner_id, :type, :queue, CAST(:partition_key AS text),
           CASE WHEN CAST(:partition_key AS text) IS NOT NULL
                THEN nextval('taskbell.partition_seq') END,
           :correlation_id, :traceparent,
           GREATEST(clock_timestamp(),
                    COALESCE(CAST(:scheduled_at AS timestamptz),
                             clock_timestamp()
                             + make_interval(secs => COALESCE(CAST(:delay AS float8), 0)))),
           :max_attempts, :priority, CAST(:payload AS jsonb)"""
_KEPT_VALUES = f"""{_VALUES},
           CAST(:payload_sealed AS bytea), CAST(:payload_location AS text)"""

_BELL = f", {ring('t')}"
_RUNG = "(SELECT count(*) FROM rung)"

_ASK = """ask AS MATERIALIZED (
    SELECT * FROM unnest(
        CAST(:id AS uuid[]), CAST(:owner_id AS text[]), CAST(:type AS text[]),
        CAST(:queue AS text[]), CAST(:partition_key AS text[]), CAST(:correlation_id AS text[]),
        CAST(:scheduled_at AS timestamptz[]), CAST(:delay AS float8[]),
        CAST(:max_attempts AS smallint[]), CAST(:priority AS smallint[]),
        CAST(:payload AS text[]){more_arrays}
    ) WITH ORDINALITY AS a(id, owner_id, type, queue, partition_key, correlation_id,
                           scheduled_at, delay, max_attempts, priority, payload{more_columns}, n)
)"""
_KEY_ARRAYS = ", CAST(:key_hash AS bytea[]), CAST(:request_hash AS bytea[])"
_KEY_COLUMNS = ", key_hash, request_hash"
_KEPT_ARRAYS = ", CAST(:payload_sealed AS bytea[]), CAST(:payload_location AS text[])"
_KEPT_ASKED = ", payload_sealed, payload_location"

# Read in the caller's order, so that the line of a partition keeps it.
_ASKED_VALUES = """a.id, a.owner_id, a.type, a.queue, a.partition_key,
           CASE WHEN a.partition_key IS NOT NULL THEN nextval('taskbell.partition_seq') END,
           a.correlation_id, CAST(:traceparent AS text),
           GREATEST(clock_timestamp(),
                    COALESCE(a.scheduled_at,
                             clock_timestamp() + make_interval(secs => COALESCE(a.delay, 0)))),
           a.max_attempts, a.priority, CAST(a.payload AS jsonb)"""
_KEPT_ASKED_VALUES = f"{_ASKED_VALUES}, a.payload_sealed, a.payload_location"


@dataclass(frozen=True, slots=True)
class Births:
    """The four ways in which tasks are born."""

    one: Statement
    one_with_key: Statement
    many: Statement
    many_with_keys: Statement


@cache
def births(*, ring: bool, kept: bool, gate: Gate) -> Births:
    """Return the statements for these terms.

    ``ring``: ring the doorbell if somebody sleeps; NOTIFY makes PREPARE TRANSACTION fail. ``kept``:
    payloads may be sealed or stored elsewhere, too. ``gate``: what is asked before.
    """
    way = _Way(
        bell=_BELL if ring else "",
        rung=_RUNG if ring else "0",
        columns=_KEPT_COLUMNS if kept else _TASK_COLUMNS,
        values=_KEPT_VALUES if kept else _VALUES,
        asked_values=_KEPT_ASKED_VALUES if kept else _ASKED_VALUES,
        kept=kept,
        gate=gate,
    )
    return Births(
        one=_one(way),
        one_with_key=_one_with_key(way),
        many=_many(way),
        many_with_keys=_many_with_keys(way),
    )


@dataclass(frozen=True, slots=True)
class _Way:
    """The pieces in which the statements differ."""

    bell: str
    rung: str
    columns: str
    values: str
    asked_values: str
    kept: bool
    gate: Gate

    def ask(self, *, key: bool) -> str:
        arrays = (_KEY_ARRAYS if key else "") + (_KEPT_ARRAYS if self.kept else "")
        columns = (_KEY_COLUMNS if key else "") + (_KEPT_ASKED if self.kept else "")
        return _ASK.format(more_arrays=arrays, more_columns=columns)

    def asking(self, *, key: bool, many: bool) -> Asking:
        if self.gate is Gate.OPEN:
            return Asking()
        asking = asking_of_many if many else asking_of_one
        return asking(key=key, rated=self.gate is Gate.QUEUE_AND_RATE)


def _one(way: _Way) -> Statement:
    asking = way.asking(key=False, many=False)
    ahead, source = "", f"VALUES (:id, {way.values})"
    if asking.ctes:
        ahead = f"{asking.ctes.removeprefix(', ')}, "
        source = f"SELECT CAST(:id AS uuid), {way.values}{asking.where}"
    return Statement(f"""
WITH {ahead}t AS (
    INSERT INTO taskbell.task ({way.columns})
    {source}
    {_UNLESS_THERE}
), {_ENTRY}{way.bell}
SELECT CAST(:id AS uuid) AS task_id, EXISTS (SELECT FROM t) AS created,
       true AS same_request, {way.rung} AS rung{asking.told}
""")


def _one_with_key(way: _Way) -> Statement:
    # DO UPDATE waits for a concurrent first use and returns the row it committed; DO NOTHING would
    # return none, and a SELECT beside it has the older snapshot. A known key is only read.
    asking = way.asking(key=True, many=False)
    told = f"{way.rung} AS rung{asking.told}"
    return Statement(f"""
WITH known AS MATERIALIZED (
    SELECT i.task_id, i.request_hash FROM taskbell.idempotency i
    WHERE i.owner_id = :owner_id AND i.key_hash = CAST(:key_hash AS bytea)
){asking.ctes}, first AS (
    INSERT INTO taskbell.idempotency AS i (owner_id, key_hash, task_id, request_hash)
    SELECT :owner_id, CAST(:key_hash AS bytea), CAST(:id AS uuid), CAST(:request_hash AS bytea)
    WHERE NOT EXISTS (SELECT FROM known)
      AND NOT EXISTS (SELECT FROM taskbell.task x WHERE x.id = CAST(:id AS uuid)){asking.also}
    ON CONFLICT (owner_id, key_hash) DO UPDATE SET task_id = i.task_id
    RETURNING i.task_id, i.request_hash
), fate AS MATERIALIZED (
    SELECT task_id, request_hash FROM known UNION ALL SELECT task_id, request_hash FROM first
), t AS (
    INSERT INTO taskbell.task ({way.columns}, idempotency_hash)
    SELECT f.task_id, {way.values}, CAST(:key_hash AS bytea)
    FROM fate f WHERE f.task_id = CAST(:id AS uuid) AND NOT EXISTS (SELECT FROM known)
    {_UNLESS_THERE}
), {_ENTRY}{way.bell}
SELECT COALESCE(f.task_id, CAST(:id AS uuid)) AS task_id, EXISTS (SELECT FROM t) AS created,
       COALESCE(f.request_hash = CAST(:request_hash AS bytea), true) AS same_request, {told}
FROM (SELECT) AS one LEFT JOIN fate f ON true
""")


def _many(way: _Way) -> Statement:
    asking = way.asking(key=False, many=True)
    return Statement(f"""
WITH {way.ask(key=False)}{asking.ctes}, t AS (
    INSERT INTO taskbell.task ({way.columns})
    SELECT {way.asked_values}
    FROM (SELECT * FROM ask ORDER BY n) a{asking.where}
    {_UNLESS_THERE}
), {_ENTRY}{way.bell}
SELECT CAST(NULL AS uuid) AS task_id, t.id IS NOT NULL AS created, true AS same_request,
       {way.rung} AS rung{asking.told}
FROM ask a LEFT JOIN t ON t.id = a.id ORDER BY a.n
""")


def _many_with_keys(way: _Way) -> Statement:
    # The first of equal keys proposes: one statement may not offer a key twice. Keys go in byte
    # order, whatever the database's collation, so that overlapping batches never deadlock.
    asking = way.asking(key=True, many=True)
    told = f"{way.rung} AS rung{asking.told}"
    return Statement(f"""
WITH {way.ask(key=True)}, proposed AS MATERIALIZED (
    SELECT DISTINCT ON (owner_id, key_hash) owner_id, key_hash, id, request_hash, taken
    FROM (SELECT ask.*, EXISTS (SELECT FROM taskbell.task x WHERE x.id = ask.id) AS taken
          FROM ask WHERE key_hash IS NOT NULL) k
    ORDER BY owner_id, key_hash, taken, n
), known AS MATERIALIZED (
    SELECT p.owner_id, p.key_hash, i.task_id, i.request_hash
    FROM proposed p JOIN taskbell.idempotency i USING (owner_id, key_hash)
){asking.ctes}, first AS (
    INSERT INTO taskbell.idempotency AS i (owner_id, key_hash, task_id, request_hash)
    SELECT p.owner_id, p.key_hash, p.id, p.request_hash FROM proposed p
    WHERE NOT p.taken
      AND NOT EXISTS (SELECT FROM known k
                      WHERE k.owner_id = p.owner_id AND k.key_hash = p.key_hash){asking.also}
    ORDER BY p.key_hash, p.owner_id COLLATE "C"
    ON CONFLICT (owner_id, key_hash) DO UPDATE SET task_id = i.task_id
    RETURNING i.owner_id, i.key_hash, i.task_id, i.request_hash
), fate AS MATERIALIZED (
    SELECT owner_id, key_hash, task_id, request_hash, false AS fresh FROM known
    UNION ALL SELECT owner_id, key_hash, task_id, request_hash, true FROM first
), t AS (
    INSERT INTO taskbell.task ({way.columns}, idempotency_hash)
    SELECT {way.asked_values}, a.key_hash
    FROM (SELECT ask.* FROM ask
          LEFT JOIN fate f ON f.owner_id = ask.owner_id AND f.key_hash = ask.key_hash
          WHERE ask.key_hash IS NULL OR (f.fresh AND f.task_id = ask.id)
          ORDER BY ask.n) a{asking.where}
    {_UNLESS_THERE}
), {_ENTRY}{way.bell}
SELECT NULLIF(f.task_id, a.id) AS task_id, t.id IS NOT NULL AS created,
       COALESCE(f.request_hash = a.request_hash, true) AS same_request, {told}
FROM ask a
LEFT JOIN fate f ON f.owner_id = a.owner_id AND f.key_hash = a.key_hash
LEFT JOIN t ON t.id = a.id
ORDER BY a.n
""")


RINGING = births(ring=True, kept=False, gate=Gate.OPEN)
"""Rings the doorbell if somebody sleeps."""

SILENT = births(ring=False, kept=False, gate=Gate.OPEN)
"""Never rings: NOTIFY makes PREPARE TRANSACTION fail."""
