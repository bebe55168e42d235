"""Fills tables by the million in plain SQL, which no producer could do within a benchmark."""

from typing import Final

from benchmarks.counters import rows

_TASKS: Final = """
WITH born AS (
    INSERT INTO taskbell.task (id, type, queue, scheduled_at, status, attempt_count, payload)
    SELECT CAST(lpad(to_hex(CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)), 12, '0')
                || '7' || substr(md5(CAST(n AS text)), 1, 3) || '8'
                || substr(md5(CAST(n AS text)), 4, 15) AS uuid),
           %s, %s, clock_timestamp() + make_interval(secs => %s + n / 1e6), %s, %s,
           jsonb_build_object('number', n, 'sent', NULL, 'padding', repeat('x', 64))
    FROM generate_series(CAST(%s AS bigint), CAST(%s AS bigint) - 1) n
    RETURNING id, queue, priority, scheduled_at, status
)
"""
_ENTRIES: Final = f"""{_TASKS}
INSERT INTO taskbell.outbox (task_id, queue, priority, publish_at)
SELECT id, queue, priority, scheduled_at FROM born
"""
_LEASES: Final = f"""{_TASKS}
INSERT INTO taskbell.lease (task_id, queue, worker_id, attempt, expires_at)
SELECT id, queue, 'consumer-elsewhere', 1, clock_timestamp() + interval '1 hour' FROM born
"""
_CHUNK: Final = 100_000
_CROWD: Final = "crowd"
"""The type of tasks that are not to run."""


def waiting(url: str, queue: str, count: int, *, first: int = 0, due_in: float = 0.0) -> None:
    """Add tasks that wait; they are numbered from ``first`` and due so many seconds from now."""
    _fill(url, _ENTRIES, (_kind(due_in), queue, due_in, "PENDING", 0), first, count)


def retrying(url: str, queue: str, count: int, *, due_in: float) -> None:
    """Add tasks that failed once and wait for their next try."""
    _fill(url, _ENTRIES, (_CROWD, queue, due_in, "RETRYING", 1), 0, count)


def leased(url: str, queue: str, count: int) -> None:
    """Add tasks that somebody else runs for the next hour."""
    _fill(url, _LEASES, (_CROWD, queue, 0.0, "IN_PROGRESS", 1), 0, count)


def _kind(due_in: float) -> str:
    return _CROWD if due_in else "noop"


def _fill(
    url: str, query: str, given: tuple[str, str, float, str, int], first: int, count: int
) -> None:
    for start in range(first, first + count, _CHUNK):
        rows(url, query, *given, start, min(first + count, start + _CHUNK))
