"""taskbell as it is run: relay and consumers in processes of their own, tasks through its API."""

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg

from benchmarks import processes
from benchmarks.bench import Bench
from benchmarks.counters import rows
from benchmarks.crew import Crew, RunFailed
from benchmarks.handlers import payload
from benchmarks.measured import Sample, Seen, seen
from benchmarks.meter import Meter
from taskbell.producer import NewTask, Producer
from taskbell.shared.database import conninfo

SLOTS: Final = 200
_PATIENCE: Final = 120.0
_ANALYSED: Final = "ANALYZE taskbell.task, taskbell.outbox"
_LEFT: Final = """
SELECT (SELECT count(*) FROM taskbell.outbox WHERE queue = %s)
     + (SELECT count(*) FROM taskbell.lease WHERE queue = %s)
"""
_OUTCOME: Final = """
SELECT count(*) FILTER (WHERE status = 'COMPLETED' AND attempt_count = 1) AS once, count(*) AS total
FROM taskbell.task WHERE queue = %s AND type <> 'crowd'
"""


@dataclass(frozen=True)
class Shape:
    """How many of which processes."""

    consumers: int = 2
    brokered: bool = True
    slots: int = SLOTS
    queue: str = "bench"
    application: str = "handlers"
    """The module of the handlers."""


@dataclass
class Pipeline:
    """A database, perhaps a vhost, and the processes on them."""

    shape: Shape
    database_url: str
    crew: Crew
    messages: Callable[[], int] | None
    resting: int = 0
    """Rows of its queue that are not to run."""
    relayed: bool = False
    """Whether its relay was started already."""

    @property
    def directory(self) -> Path:
        """Where the tallies are."""
        return self.crew.directory

    @property
    def consumers(self) -> list[str]:
        """The consumers' names."""
        return [f"consumer-{number}" for number in range(self.shape.consumers)]

    def start(self) -> None:
        """Start the processes; every one is up then and, if it needs one, has its broker."""
        command = ("taskbell.consumer", f"benchmarks.{self.shape.application}:app")
        chosen = ("--queues", self.shape.queue, "--slots", str(self.shape.slots))
        for name in self.consumers:
            self.crew.start(name, *command, *chosen)
        if self.shape.brokered and not self.relayed:
            self.crew.start("relay", "taskbell.relay")
            self._await_up("relay")
        for name in self.consumers:
            self._await_up(name)

    def start_relay(self) -> None:
        """Start the relay before the consumers, whose first poll would leave it nothing to do."""
        self.crew.start("relay", "taskbell.relay")
        self._await_up("relay")
        self.relayed = True

    def _await_up(self, name: str) -> None:
        self.crew.says(name, '"role_started"')
        if self.shape.brokered:
            self.crew.says(name, '"broker_found"')

    def consumers_cpu(self) -> float:
        """CPU seconds that the consumers used so far."""
        return processes.cpu_of(self.crew.pid(name) for name in self.consumers)

    def seen(self) -> Seen:
        """What the consumers' tallies say."""
        return seen(self.directory)

    def left(self) -> int:
        """How many tasks wait or run."""
        queue = self.shape.queue
        return int(rows(self.database_url, _LEFT, queue, queue)[0][0])

    def drained(self, count: int, patience: float = _PATIENCE) -> None:
        """Return when this many ran and none is left."""
        self.crew.wait(f"{count} tasks ran", lambda: self.seen().count >= count, patience)
        self.crew.wait("every task is settled", lambda: self.left() == self.resting, patience)

    def require_once(self, count: int) -> None:
        """Raise ``RunFailed`` unless this many tasks were completed, each by its first attempt."""
        (row,) = rows(self.database_url, _OUTCOME, self.shape.queue)
        ran = self.seen()
        if (row.once, row.total, ran.count, ran.total) != (count, count, count, _sum(count)):
            raise RunFailed(f"{count} tasks were asked for, and this happened: {row}, {ran}")


def _sum(count: int) -> int:
    return count * (count - 1) // 2


@contextmanager
def open_pipeline(
    bench: Bench, shape: Shape, database_url: str | None = None
) -> Generator[Pipeline]:
    """A pipeline on a fresh database, or on the given one; its processes are not started yet."""
    url = database_url or bench.servers.database()
    environment = {
        "TASKBELL_DATABASE_URL": url,
        "TASKBELL_LOG_FORMAT": "json",
        "TASKBELL_GRACE": "0" if shape.queue == "hold" else "5",
    }
    messages = None
    if shape.brokered:
        amqp_url = environment["TASKBELL_AMQP_URL"] = bench.servers.vhost()
        messages = _published(bench, amqp_url.rpartition("/")[2])
    with Crew(bench.run_directory(), environment, bench.packages) as crew:
        yield Pipeline(shape, url, crew, messages)


def _published(bench: Bench, vhost: str) -> Callable[[], int]:
    def read() -> int:
        told = bench.servers.rabbitmq.management.request("GET", "vhosts", vhost)
        return int(told.get("message_stats", {}).get("publish", 0))

    return read


def tasks(count: int, *, kind: str = "noop", queue: str = "bench") -> Iterator[NewTask]:
    """The requests for this many tasks."""
    return (NewTask(kind, payload(number), queue=queue) for number in range(count))


def preload(connection: psycopg.Connection[Any], requests: Iterable[NewTask]) -> None:
    """Enqueue in the open transaction and let the planner know; its commit shows all at once."""
    Producer().enqueue_many(connection, requests)
    connection.execute(_ANALYSED)


def drain(bench: Bench, count: int, shape: Shape, *, kind: str = "noop") -> Sample:
    """Let a backlog that becomes visible at once be drained; from its first handler to its last."""
    with open_pipeline(bench, shape) as pipeline:
        pipeline.start()
        return drain_through(pipeline, count, kind)


def drain_through(pipeline: Pipeline, count: int, kind: str = "noop") -> Sample:
    """The same through a pipeline that runs; it is stopped afterwards."""
    meter = Meter(pipeline.database_url, pipeline.messages)
    with psycopg.connect(conninfo(pipeline.database_url)) as connection:
        preload(connection, tasks(count, kind=kind, queue=pipeline.shape.queue))
        meter.count()
        meter.begin()
        before = pipeline.consumers_cpu()
    pipeline.drained(count)
    meter.end()
    used = pipeline.consumers_cpu() - before
    ran = pipeline.seen()
    pipeline.crew.stop()
    pipeline.require_once(count)
    if pipeline.messages is not None:
        time.sleep(1.2)  # the broker tells its counters every second
    sample = meter.sample(count, ran.last - ran.first)
    sample.cpu["consumers"] = used
    return sample
