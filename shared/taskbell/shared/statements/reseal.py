"""What of a task may be sealed: what its key is, what it holds, and another seal instead."""

from functools import cache

from taskbell.shared.sealing.envelope import HEAD_BYTES, HEAD_CHARACTERS
from taskbell.shared.statement import Statement
from taskbell.shared.statements.operation import log

LOOK = Statement(f"""
SELECT t.id AS task_id, t.owner_id,
       substring(t.payload_sealed FROM 1 FOR {HEAD_BYTES}) AS payload_sealed,
       t.payload IS NOT NULL AS payload, t.payload_location,
       substring(t.result_sealed FROM 1 FOR {HEAD_BYTES}) AS result_sealed,
       t.result IS NOT NULL AS result, t.result_location,
       left(t.error_message, {HEAD_CHARACTERS}) AS error_message,
       left(d.last_error, {HEAD_CHARACTERS}) AS last_error,
       f.attempts, f.errors, f.tracebacks
FROM taskbell.task t
LEFT JOIN taskbell.dead_letter d ON d.task_id = t.id
CROSS JOIN LATERAL (
    SELECT array_agg(f.attempt ORDER BY f.attempt) AS attempts,
           array_agg(left(f.error, {HEAD_CHARACTERS}) ORDER BY f.attempt) AS errors,
           array_agg(left(f.traceback, {HEAD_CHARACTERS}) ORDER BY f.attempt) AS tracebacks
    FROM taskbell.failure f WHERE f.task_id = t.id
) f
WHERE t.id > CAST(:after AS uuid)
  AND (CAST(:owner_id AS text) IS NULL OR t.owner_id = :owner_id)
ORDER BY t.id LIMIT :limit
""")
"""The beginnings of what is sealed: enough to name the keys, and a page stays small."""


@cache
def fetch(table: str, column: str) -> Statement:
    """Return the whole of what LOOK answered the beginning of, as ``old``."""
    return Statement(f"SELECT x.{column} AS old FROM taskbell.{table} x WHERE {_key(table)}")


@cache
def swap(table: str, column: str) -> Statement:
    """Replace exactly this content; no row if somebody wrote another meanwhile.

    Not durable by itself: what a crash takes back is sealed as before and met again.
    """
    return Statement(f"""
UPDATE taskbell.{table} x SET {column} = :new WHERE {_key(table)} AND x.{column} = :old
RETURNING set_config('synchronous_commit', 'off', true)
""")


@cache
def fetch_clear(column: str) -> Statement:
    """The same for what is kept in the clear, as JSON text."""
    return Statement(
        f"SELECT CAST(x.{column} AS text) AS old FROM taskbell.task x WHERE {_key('task')}"
    )


@cache
def swap_clear(column: str) -> Statement:
    """Replace clear content by sealed."""
    return Statement(f"""
UPDATE taskbell.task x SET {column}_sealed = CAST(:new AS bytea), {column} = NULL
WHERE {_key("task")} AND x.{column} = CAST(:old AS jsonb)
RETURNING set_config('synchronous_commit', 'off', true)
""")


def _key(table: str) -> str:
    if table == "failure":
        return "x.task_id = :task_id AND x.attempt = :attempt"
    return "x.id = :task_id" if table == "task" else "x.task_id = :task_id"


_RUN = "SELECT CAST(:subject AS text) AS subject, CAST(:detail AS jsonb) AS detail"

BEGIN = Statement(f"WITH {log('reseal', _RUN)} SELECT 1 AS logged")
END = Statement(f"WITH {log('resealed', _RUN)} SELECT 1 AS logged")
"""Durable, and with it every swap before: what it says may be relied on."""
