"""Claimers in threads, each with its connection, and three ways to claim: ours and two wrong."""

import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import psycopg

from support.hands import claiming
from taskbell.shared.database import conninfo
from taskbell.shared.statements import claim

Connection = psycopg.Connection[Any]
Way = Callable[[Connection, str, int], list[UUID]]
"""Claims up to so many tasks of a queue on a connection and returns their ids."""

_SKIPPING: Final = claim.BY_QUEUE.for_psycopg
_WAITING: Final = _SKIPPING.replace(b" SKIP LOCKED", b"")
_SELECT: Final = """
SELECT task_id FROM taskbell.outbox WHERE queue = %s AND publish_at <= clock_timestamp()
ORDER BY publish_at LIMIT %s
"""
_UPDATE: Final = """
UPDATE taskbell.task SET status = 'IN_PROGRESS', attempt_count = attempt_count + 1
WHERE id = ANY (%s) RETURNING id
"""
_LOOK_SECONDS: Final = 0.002
_LOCK_WAITS: Final = """
SELECT wait_event FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


def skipping(connection: Connection, queue: str, limit: int) -> list[UUID]:
    """Our claim."""
    return _claim(connection, _SKIPPING, queue, limit)


def waiting(connection: Connection, queue: str, limit: int) -> list[UUID]:
    """Our claim without the two words SKIP LOCKED."""
    return _claim(connection, _WAITING, queue, limit)


def _claim(connection: Connection, statement: bytes, queue: str, limit: int) -> list[UUID]:
    parameters = claiming("claimer", limit, queue)
    # The column's name is known; the rows are plain tuples, as the callers of psycopg get them.
    cursor = connection.execute(statement, parameters, prepare=True)
    assert cursor.description is not None
    place = [column.name for column in cursor.description].index("task_id")
    return [row[place] for row in cursor]


def look(connection: Connection, queue: str, limit: int) -> list[UUID]:
    """The first half of select-then-update: which tasks look free."""
    return [row[0] for row in connection.execute(_SELECT, (queue, limit))]


def take(connection: Connection, task_ids: Sequence[UUID]) -> list[UUID]:
    """The second half: take them."""
    return [row[0] for row in connection.execute(_UPDATE, (list(task_ids),))]


@contextmanager
def connected(url: str, *, autocommit: bool = True) -> Generator[Connection]:
    """A claimer's connection."""
    with psycopg.connect(conninfo(url), autocommit=autocommit) as connection:
        connection.execute("SET jit = off")
        if not autocommit:
            connection.commit()
        yield connection


@dataclass(frozen=True)
class Race:
    """What several claimers took, and how."""

    taken: list[list[UUID]]
    """By claimer."""
    seconds: float
    lock_waits: list[str]
    """What a claimer was seen to wait for, each time somebody looked."""

    @property
    def all(self) -> list[UUID]:
        """What all of them took."""
        return [task_id for one in self.taken for task_id in one]

    @property
    def rate(self) -> float:
        """Tasks a second."""
        return len(self.all) / self.seconds


def race(
    url: str, queue: str, way: Way, *, claimers: int, limit: int,
    hold: float = 0.0, meet: bool = False,
) -> Race:  # fmt: skip
    """Let claimers empty a queue, all at once; each commits ``hold`` seconds after its claim.

    If they ``meet``, nobody commits before everybody has made a claim.
    """
    ready, over = threading.Barrier(claimers + 1), threading.Event()
    met = threading.Barrier(claimers)

    def empty() -> list[UUID]:
        taken: list[UUID] = []
        with connected(url, autocommit=False) as connection:
            ready.wait()
            while found := way(connection, queue, limit):
                if meet and not taken:
                    met.wait()
                taken += found
                time.sleep(hold)
                connection.commit()
        return taken

    with ThreadPoolExecutor(claimers + 1) as threads:
        watching = threads.submit(_watch, url, over)
        running = [threads.submit(empty) for _ in range(claimers)]
        ready.wait()
        started = time.monotonic()
        taken = [each.result() for each in running]
        seconds = time.monotonic() - started
        over.set()
        return Race(taken, seconds, watching.result())


def _watch(url: str, over: threading.Event) -> list[str]:
    seen: list[str] = []
    with connected(url) as connection:
        while not over.wait(_LOOK_SECONDS):
            seen += [row[0] for row in connection.execute(_LOCK_WAITS)]
    return seen
