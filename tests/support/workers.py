"""A worker in this process, what it reports, and what became of its tasks."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from uuid import UUID

import psycopg
from psycopg.rows import namedtuple_row

from support.waiting import PATIENCE
from taskbell.consumer import Consumer
from taskbell.consumer.assembly import assemble
from taskbell.consumer.settings import ConsumerSettings
from taskbell.consumer.shutdown import Shutdown
from taskbell.shared.database import conninfo
from taskbell.shared.events import Event, TaskSettled
from taskbell.shared.ids import new_worker_id

E = TypeVar("E", bound=Event)


class Reports:
    """An observer that keeps what it saw, from any thread, and lets tests wait for more."""

    def __init__(self) -> None:
        self._seen: list[Event] = []
        self._lock = threading.Lock()
        self._more = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def __call__(self, event: Event) -> None:
        with self._lock:
            self._seen.append(event)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._more.set)

    def of(self, kind: type[E]) -> list[E]:
        """What it saw of this kind."""
        with self._lock:
            return [event for event in self._seen if isinstance(event, kind)]

    async def some(
        self, kind: type[E], when: Callable[[E], bool] = lambda _: True, *, count: int = 1
    ) -> list[E]:
        """Such events, seen already or coming, once there are ``count``."""
        async with asyncio.timeout(PATIENCE):
            while True:
                self._more.clear()
                found = [event for event in self.of(kind) if when(event)]
                if len(found) >= count:
                    return found
                await self._more.wait()

    async def settled(self, *task_ids: UUID, status: str = "COMPLETED") -> None:
        """Return once each of these was reported to be ``status``."""
        wanted = set(task_ids)

        def matches(event: TaskSettled) -> bool:
            return event.task_id in wanted and event.status == status

        async with asyncio.timeout(PATIENCE):
            while wanted - {each.task_id for each in self.of(TaskSettled) if matches(each)}:
                self._more.clear()
                if wanted - {each.task_id for each in self.of(TaskSettled) if matches(each)}:
                    await self._more.wait()


class Running:
    """A worker that runs: its name, how to stop it, and how it ended."""

    def __init__(self, name: str, shutdown: Shutdown, work: asyncio.Task[bool]) -> None:
        self.name = name
        self.shutdown = shutdown
        self._work = work

    async def stopped(self) -> bool:
        """Ask it to stop; answers whether it ended in good order."""
        self.shutdown.ask()
        return await self.ended()

    async def ended(self) -> bool:
        """Whether it ended in good order, once it did."""
        async with asyncio.timeout(PATIENCE):
            return await asyncio.shield(self._work)


@asynccontextmanager
async def working(
    app: Consumer, database_url: str, reports: Reports, **settings: Any
) -> AsyncGenerator[Running]:
    """A worker; brokerless unless ``amqp_url`` is given. It is stopped at the end, if need be."""
    given = ConsumerSettings.read(database_url=database_url, **{"grace": 5.0, **settings})
    shutdown = Shutdown()
    name = new_worker_id("consumer")
    worker = assemble(app, given, name, shutdown, reports)
    work = asyncio.get_running_loop().create_task(worker.run())
    try:
        yield Running(name, shutdown, work)
    finally:
        shutdown.ask()
        async with asyncio.timeout(PATIENCE):
            await work


def rows(url: str, query: str, *parameters: object) -> list[Any]:
    """The rows of a query, as named tuples; committed."""
    with psycopg.connect(conninfo(url), row_factory=namedtuple_row) as connection:
        cursor = connection.execute(query.encode(), parameters)
        return cursor.fetchall() if cursor.description else []


def task_of(url: str, task_id: UUID) -> Any:
    """The task's row; ``used`` is its tries."""
    (found,) = rows(
        url, "SELECT t.*, attempt_count - refunded AS used FROM taskbell.task t WHERE id = %s",
        task_id,
    )  # fmt: skip
    return found
