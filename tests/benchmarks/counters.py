"""What a database did: statements, commits, WAL, HOT updates and dead tuples, from its counters."""

import time
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg.rows import namedtuple_row

from taskbell.shared.database import conninfo

_READ: Final = """
SELECT (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()) AS commits,
       (SELECT coalesce(sum(calls), 0) FROM pg_stat_statements s
        JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = current_database()
          AND query !~* '^\\s*(begin|commit|rollback|savepoint|release|discard|set |show )'
       ) AS statements,
       CAST(pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS bigint) AS wal,
       coalesce(sum(n_tup_upd), 0) AS updates, coalesce(sum(n_tup_hot_upd), 0) AS hot,
       coalesce(sum(n_dead_tup), 0) AS dead
FROM pg_stat_user_tables
"""

_KINDS: Final = """
SELECT CASE WHEN query ~ 'INTO taskbell.task ' THEN 'enqueue'
            WHEN query ~ 'INSERT INTO taskbell.lease' THEN 'claim'
            WHEN query ~ 'DELETE FROM taskbell.lease' THEN 'settle'
            WHEN query ~ 'outbox o SET announced_at = clock' THEN 'announce'
            WHEN query ~ 'INSERT INTO taskbell.effect' THEN 'effect'
            WHEN query ~ 'UPDATE taskbell.lease' THEN 'heartbeat' ELSE 'other' END AS kind,
       sum(calls) AS calls, sum(rows) AS rows, sum(total_exec_time) / 1e3 AS seconds,
       sum(shared_blks_hit + shared_blks_read) AS buffers, sum(wal_bytes) AS wal
FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
WHERE d.datname = current_database() GROUP BY 1
"""

_FLUSHED: Final = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""

_TIDY: Final = ("VACUUM (ANALYZE)", "CHECKPOINT")


@dataclass(frozen=True, slots=True)
class Counts:
    """The counters of one database at one moment; statements are those that are not BEGIN & co."""

    commits: int
    statements: int
    wal: int
    updates: int
    hot: int
    dead: int

    def since(self, before: "Counts") -> "Counts":
        """What was done since then; dead tuples are those there are now."""
        return Counts(
            self.commits - before.commits, self.statements - before.statements,
            self.wal - before.wal, self.updates - before.updates, self.hot - before.hot, self.dead,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kind:
    """What the statements of one kind did since the counters were reset."""

    kind: str
    calls: int
    rows: int
    seconds: float
    buffers: int
    wal: int


def read(url: str) -> Counts:
    """Read the counters; other sessions report commits a second late, or at their end."""
    (row,) = rows(url, _READ)
    return Counts(*map(int, row))


def kinds(url: str) -> dict[str, Kind]:
    """Our own statements by kind."""
    return {
        each.kind: Kind(
            each.kind, int(each.calls), int(each.rows), float(each.seconds), int(each.buffers),
            int(each.wal),
        )
        for each in rows(url, _KINDS)
    }  # fmt: skip


def forget_kinds(url: str) -> None:
    """Let the statements' counters begin anew."""
    rows(url, "SELECT pg_stat_statements_reset()")


def sessions(url: str) -> int:
    """How many other sessions this database has."""
    return int(rows(url, _FLUSHED)[0][0])


def wait_for_reports(url: str, patience: float = 10.0) -> None:
    """Return when every other session has ended, and with its end reported what it did."""
    deadline = time.monotonic() + patience
    while sessions(url) and time.monotonic() < deadline:
        time.sleep(0.02)


def tidy(url: str) -> None:
    """Vacuum, analyse and checkpoint, so that every run starts from the same state."""
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        for each in _TIDY:
            connection.execute(each.encode())


def rows(url: str, query: str, *parameters: object) -> list[Any]:
    """The rows of a query, as named tuples; committed."""
    with psycopg.connect(conninfo(url), row_factory=namedtuple_row) as connection:
        cursor = connection.execute(query.encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []
