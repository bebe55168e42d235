"""Producers in processes of their own: ``python -m benchmarks.loads KIND TASKS [RATE]``.

Says "ready", waits for a line, does its work and says what it did as JSON.
"""

import base64
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import IsolationLevel
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.orm import Session

from benchmarks.handlers import payload
from taskbell.producer import NewTask, Producer
from taskbell.shared.database import conninfo

BATCH: Final = 100
LARGE_BATCH: Final = 10_000
_IDLE_GAP: Final = (0.05, 0.15)
_BUSINESS: Final = "INSERT INTO bench.note (body) VALUES ('a row of the business')"
BUSINESS_TABLE: Final = """
CREATE SCHEMA IF NOT EXISTS bench;
CREATE TABLE bench.note (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text NOT NULL);
"""

Answer = dict[str, object]


class Load:
    """One producer; each method does the work of one kind and answers with figures."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._producer = Producer()
        self._engine: Engine = create_engine(url)

    def one_psycopg(self, count: int, _rate: float) -> Answer:
        """Enqueue one by one through psycopg, each its own commit."""
        return self._one_by_one(count, self._producer)

    def _one_by_one(self, count: int, producer: Producer) -> Answer:
        with self._connected() as connection:
            connection.autocommit = True
            return _timed(count, lambda n: producer.enqueue(connection, _task(n)))

    def one_admitted(self, count: int, _rate: float) -> Answer:
        """The same, asking for admission: the queue is bounded and has room."""
        return self._one_by_one(count, Producer(admission=True))

    def one_sealed(self, count: int, _rate: float) -> Answer:
        """The same, with payloads sealed by the ring."""
        from taskbell.shared.sealing import Seals  # noqa: PLC0415 - not for the others to load

        ring = f"bench:{base64.b64encode(os.urandom(32)).decode()}"
        return self._one_by_one(count, Producer(seals=Seals.of(ring, None)))

    def one_session(self, count: int, _rate: float) -> Answer:
        """Enqueue one by one through a SQLAlchemy Session, each its own transaction."""

        def enqueue(number: int) -> None:
            with Session(self._engine) as session, session.begin():
                self._producer.enqueue(session, _task(number))

        return _timed(count, enqueue)

    def added_psycopg(self, count: int, _rate: float) -> Answer:
        """What an enqueue adds to a business transaction through psycopg."""
        with self._connected() as connection:

            def work(number: int, *, enqueue: bool) -> None:
                with connection.transaction():
                    connection.execute(_BUSINESS)
                    if enqueue:
                        self._producer.enqueue(connection, _task(number))

            return _added(count, work)

    def added_session(self, count: int, _rate: float) -> Answer:
        """What an enqueue adds to a business transaction through SQLAlchemy."""
        business = text(_BUSINESS)

        def work(number: int, *, enqueue: bool) -> None:
            with Session(self._engine) as session, session.begin():
                session.execute(business)
                if enqueue:
                    self._producer.enqueue(session, _task(number))

        return _added(count, work)

    def many(self, count: int, _rate: float) -> Answer:
        """Enqueue ten thousand in a call and a commit."""
        return self._batches(count, LARGE_BATCH)

    def stream(self, count: int, _rate: float) -> Answer:
        """Enqueue a hundred in a call and a commit, as fast as it goes."""
        return self._batches(count, BATCH)

    def _batches(self, count: int, size: int) -> Answer:
        with self._connected() as connection:

            def enqueue(first: int) -> None:
                numbers = range(first * size, min(count, (first + 1) * size))
                self._producer.enqueue_many(connection, [_task(number) for number in numbers])
                connection.commit()

            answer = _timed(-(-count // size), enqueue)
            return {**answer, "tasks": count}

    def steady(self, count: int, rate: float) -> Answer:
        """Enqueue at a rate, whatever the answers; a task is sent when it should have been."""
        size = max(1, round(rate / 100))
        with self._connected() as connection:
            begun = time.monotonic()

            def enqueue(turn: int) -> None:
                first = turn * size
                due = begun + first / rate
                time.sleep(max(0.0, due - time.monotonic()))
                numbers = range(first, min(count, first + size))
                self._producer.enqueue_many(connection, [_task(n, due) for n in numbers])
                connection.commit()

            answer = _timed(-(-count // size), enqueue)
            return {**answer, "tasks": count}

    def idle(self, count: int, _rate: float) -> Answer:
        """Enqueue one now and then, so that everybody has gone to sleep."""
        with self._connected() as connection:
            connection.autocommit = True

            def enqueue(number: int) -> None:
                time.sleep(random.uniform(*_IDLE_GAP))  # noqa: S311 - only to spread them
                self._producer.enqueue(connection, _task(number, time.monotonic()))

            return _timed(count, enqueue)

    @contextmanager
    def _connected(self) -> Generator[psycopg.Connection[Any]]:
        with psycopg.connect(conninfo(self._url)) as connection:
            connection.isolation_level = IsolationLevel.READ_COMMITTED
            yield connection


def _task(number: int, sent: float | None = None) -> NewTask:
    return NewTask("noop", payload(number, sent), queue="bench")


def _timed(count: int, call: Callable[[int], object]) -> Answer:
    cpu, begun = time.process_time(), time.monotonic()
    for number in range(count):
        call(number)
    return {
        "tasks": count,
        "seconds": time.monotonic() - begun,
        "cpu": time.process_time() - cpu,
    }


def _added(count: int, work: Callable[..., None]) -> Answer:
    """Time the work with and without an enqueue in turn; the difference of medians is added."""
    took: dict[bool, list[float]] = {False: [], True: []}
    for number in range(count):
        for enqueue in (False, True):
            begun = time.perf_counter()
            work(number, enqueue=enqueue)
            took[enqueue].append(time.perf_counter() - begun)
    plain, full = (statistics.median(took[each]) for each in (False, True))
    return {"tasks": count, "plain": plain, "full": full, "added": full - plain}


def main() -> None:
    """Do one load."""
    kind, count, *rest = sys.argv[1:]
    load = Load(os.environ["TASKBELL_DATABASE_URL"])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    answer = getattr(load, kind)(int(count), float(rest[0]) if rest else 0.0)
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
