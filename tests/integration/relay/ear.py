"""What the tests of the relay listen with: events, announcements, and a relay in this process."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any, Self, TypeVar
from uuid import UUID

import aio_pika
import psycopg
from aio_pika.abc import AbstractConnection, AbstractIncomingMessage

from taskbell.relay import Publisher, Relay
from taskbell.shared import wire
from taskbell.shared.database import Database, conninfo
from taskbell.shared.doorbell import Doorbell
from taskbell.shared.events import Event
from taskbell.shared.ids import new_worker_id
from taskbell.shared.topology import EXCHANGE, broker_queue

E = TypeVar("E", bound=Event)
R = TypeVar("R", bound=Relay)
PATIENCE = 30.0


class Recorder:
    """An observer that keeps what it saw and lets tests wait for more."""

    def __init__(self) -> None:
        self.seen: list[Event] = []
        self._waiting: list[tuple[Callable[[Event], bool], asyncio.Future[Event]]] = []

    def __call__(self, event: Event) -> None:
        self.seen.append(event)
        for wanted, future in self._waiting:
            if not future.done() and wanted(event):
                future.set_result(event)

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.seen if isinstance(event, kind)]

    async def next(self, kind: type[E], when: Callable[[E], bool] = lambda _: True) -> E:
        """The next such event from now on."""
        future: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
        self._waiting.append((lambda e: isinstance(e, kind) and when(e), future))
        event = await asyncio.wait_for(future, PATIENCE)
        assert isinstance(event, kind)
        return event

    async def some(self, kind: type[E], when: Callable[[E], bool] = lambda _: True) -> E:
        """Such an event, seen already or next."""
        found = [event for event in self.of(kind) if when(event)]
        return found[0] if found else await self.next(kind, when)


class Ear:
    """Consumes a queue's announcements and counts the ids."""

    def __init__(self, connection: AbstractConnection) -> None:
        self._connection = connection
        self._changed = asyncio.Condition()
        self.messages: list[AbstractIncomingMessage] = []
        self.counts: Counter[UUID] = Counter()
        self.on_ids: Callable[[tuple[UUID, ...]], None] | None = None

    @classmethod
    async def open(cls, url: str, queue: str = "default", *, declare: bool = True) -> Self:
        ear = cls(await aio_pika.connect(url, timeout=PATIENCE))
        channel = await ear._connection.channel()
        wanted = broker_queue(queue)
        if declare:
            await channel.declare_exchange(EXCHANGE, "direct", durable=True)
            heard = await channel.declare_queue(
                wanted.name, durable=True, arguments=dict(wanted.arguments)
            )
            await heard.bind(EXCHANGE, wanted.routing_key)
        else:
            heard = await channel.get_queue(wanted.name)
        await heard.consume(ear._take, no_ack=True)
        return ear

    async def _take(self, message: AbstractIncomingMessage) -> None:
        ids = wire.decode(message.body)
        if self.on_ids is not None:
            self.on_ids(ids)
        async with self._changed:
            self.messages.append(message)
            self.counts.update(ids)
            self._changed.notify_all()

    async def hears(self, ids: Collection[UUID], times: int = 1) -> None:
        """Returns once each of these ids was announced at least so often."""

        def complete() -> bool:
            return all(self.counts[task_id] >= times for task_id in ids)

        async with self._changed:
            await asyncio.wait_for(self._changed.wait_for(complete), PATIENCE)

    async def close(self) -> None:
        await self._connection.close()


@asynccontextmanager
async def listening(
    url: str, queue: str = "default", *, declare: bool = True
) -> AsyncGenerator[Ear]:
    ear = await Ear.open(url, queue, declare=declare)
    try:
        yield ear
    finally:
        await ear.close()


@asynccontextmanager
async def relaying(
    database: Database | str,
    amqp_url: str,
    observe: Recorder,
    *,
    batch: int = 1000,
    **publishing: Any,
) -> AsyncGenerator[Relay]:
    """A relay that runs in this process, without maintenance."""
    async with relaying_as(Relay, database, amqp_url, observe, batch=batch, **publishing) as relay:
        yield relay


@asynccontextmanager
async def relaying_as(
    kind: type[R],
    database: Database | str,
    amqp_url: str,
    observe: Recorder,
    *,
    batch: int = 1000,
    **publishing: Any,
) -> AsyncGenerator[R]:
    """The same with a kind of relay that a test can look into."""
    if isinstance(database, str):
        database = Database(database)
    doorbell = Doorbell(database, new_worker_id("relay"), observe)
    publisher = Publisher(amqp_url, observe, **publishing)
    relay = kind(database, publisher, doorbell, observe, batch=batch)
    async with asyncio.TaskGroup() as background:
        services = [
            background.create_task(publisher.run(doorbell.wake)),
            background.create_task(doorbell.listen()),
        ]
        running = background.create_task(relay.run())
        yield relay
        relay.stop()
        await running
        for service in services:
            service.cancel()


def unmarked(url: str, ids: Collection[UUID]) -> int:
    """How many of these entries wait without a mark."""
    with psycopg.connect(conninfo(url)) as connection:
        rows = connection.execute(
            "SELECT count(*) FROM taskbell.outbox"
            " WHERE announced_at IS NULL AND task_id = ANY (%s)",
            [list(ids)],
        ).fetchone()
    assert rows is not None
    return int(rows[0])
