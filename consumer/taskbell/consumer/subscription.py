"""The aio-pika side of the consumer: declare, subscribe, note ids, ack.

A broker callback never runs a handler; it notes ids and returns. Nothing here is needed for tasks
to run: while the broker is away, wrong or empty, the poll finds them.
"""

import asyncio
import importlib.metadata
import platform
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import aio_pika
import tenacity
from aio_pika.abc import (
    AbstractChannel,
    AbstractConnection,
    AbstractIncomingMessage,
    AbstractQueue,
)
from aiormq.exceptions import AMQPError, ChannelAccessRefused, ChannelClosed

from taskbell.shared import wire
from taskbell.shared.events import BrokerFound, BrokerLost, Observer, QueueDiffers
from taskbell.shared.ids import TaskId, WorkerId
from taskbell.shared.interruption import asked_to_stop
from taskbell.shared.topology import QueueType, broker_queue

_PREFETCH = 10
_DEADLINE = 5.0
_LOOK_SECONDS = 10.0
_WORKER_IN_TAG = 54  # with a queue name of 200 bytes a tag has at most AMQP's 255
_AWAY = (AMQPError, OSError, TimeoutError, RuntimeError)
_PAUSE = tenacity.wait_exponential_jitter(initial=0.2, max=5, jitter=0.5)


class Notice(Protocol):
    """Where ids are noted."""

    def __call__(self, task_ids: Sequence[TaskId], handle: object) -> None:
        """Remember these ids; ``handle`` acknowledges them or gives them back."""
        ...


class Subscription:
    """One connection, one channel, one broker consumer for each queue; connects again for ever.

    Public methods never raise because of the broker.
    """

    def __init__(
        self,
        url: str,
        queues: Sequence[str],
        worker_id: WorkerId,
        queue_type: QueueType,
        notice: Notice,
        changed: Callable[[], None],
        observe: Observer,
    ) -> None:
        self._url = url
        self._queues = queues
        self._worker_id = worker_id
        self._queue_type = queue_type
        self._notice = notice
        self._changed = changed
        self._observe = observe
        self._broken = asyncio.Event()
        self._wanted = True
        self._consumed: dict[str, AbstractQueue] = {}
        self._told: set[str] = set()
        self.connected = False
        """Whether announcements can arrive."""

    async def run(self) -> None:
        """Stay subscribed until cancelled."""
        while True:
            connection = await self._connected()
            try:
                await self._stay(connection)
            except _AWAY as error:
                self._lost(error)
            except asyncio.CancelledError as error:
                if asked_to_stop():
                    raise
                self._lost(error)
            finally:
                self.connected = False
                self._changed()
                self._consumed.clear()
                await _close(connection)
            await asyncio.sleep(random.uniform(0.1, 0.5))  # noqa: S311 - jitter

    async def _connected(self) -> AbstractConnection:
        async for attempt in tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(_AWAY), wait=_PAUSE, after=self._report
        ):
            with attempt:
                return await self._connect()
        raise AssertionError("unreachable: retried for ever")

    def _report(self, tries: tenacity.RetryCallState) -> None:
        if tries.outcome is not None:
            self._lost(tries.outcome.exception())

    def _lost(self, error: BaseException | None) -> None:
        self._observe(BrokerLost("subscription", f"{type(error).__name__}: {error}"))

    async def _connect(self) -> AbstractConnection:
        return await aio_pika.connect(
            self._url,
            timeout=_DEADLINE,
            client_properties={
                "connection_name": f"taskbell-{self._worker_id}",
                "product": "taskbell-consumer",
                "version": importlib.metadata.version("taskbell-consumer"),
                "platform": f"Python {platform.python_version()}",
            },
        )

    async def _stay(self, connection: AbstractConnection) -> None:
        """Subscribe and return when it must be done anew; raises when the broker is away."""
        self._broken.clear()
        channel = await self._open_channel(connection)
        await channel.set_qos(prefetch_count=_PREFETCH, timeout=_DEADLINE)
        await self._subscribe(connection, channel)
        self.connected = True
        self._changed()
        self._observe(BrokerFound("subscription"))
        closed = asyncio.ensure_future(connection.closed())
        broken = asyncio.ensure_future(self._broken.wait())
        try:
            while not (closed.done() or broken.done()):
                missing = len(self._consumed) < len(self._queues)
                if missing:
                    await self._subscribe(connection, channel)
                await asyncio.wait(
                    {closed, broken},
                    timeout=_LOOK_SECONDS if missing else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
        finally:
            closed.cancel()
            broken.cancel()
        raise ConnectionResetError("closed or cancelled by the broker")

    async def _open_channel(self, connection: AbstractConnection) -> AbstractChannel:
        channel = connection.channel(publisher_confirms=False)
        await channel.initialize(timeout=_DEADLINE)
        channel.close_callbacks.add(self._note_broken)
        underlay = await channel.get_underlay_channel()
        underlay.on_consumer_cancel_callbacks.add(self._note_broken)
        return channel

    def _note_broken(self, *_: object) -> None:
        self._broken.set()

    async def _subscribe(self, connection: AbstractConnection, channel: AbstractChannel) -> None:
        for queue in self._queues:
            if queue not in self._consumed and await self._declared(connection, queue):
                name = broker_queue(queue, self._queue_type).name
                self._consumed[queue] = await channel.get_queue(name, ensure=False)
                if self._wanted:
                    await self._consume(queue)

    async def _declared(self, connection: AbstractConnection, queue: str) -> bool:
        """Declare the queue if we may; answers whether it is there."""
        for passive in (False, True):
            # A refusal closes its channel, so each try has one of its own.
            channel = connection.channel(publisher_confirms=False)
            await channel.initialize(timeout=_DEADLINE)
            wanted = broker_queue(queue, self._queue_type)
            try:
                await channel.declare_queue(
                    wanted.name,
                    durable=True,
                    passive=passive,
                    arguments=dict(wanted.arguments),
                    timeout=_DEADLINE,
                )
            except ChannelClosed as error:
                if not isinstance(error, ChannelAccessRefused) or passive:
                    self._tell(queue, str(error))
                continue
            await channel.close()
            return True
        return False

    def _tell(self, queue: str, error: str) -> None:
        if queue not in self._told:
            self._told.add(queue)
            self._observe(QueueDiffers(queue, error))

    async def _consume(self, queue: str) -> None:
        await self._consumed[queue].consume(
            self._note, consumer_tag=self._tag(queue), timeout=_DEADLINE
        )

    def _tag(self, queue: str) -> str:
        return f"{self._worker_id[-_WORKER_IN_TAG:]}.{queue}"

    async def _note(self, delivery: AbstractIncomingMessage) -> None:
        try:
            task_ids = wire.decode(delivery.body)
        except wire.NotAnAnnouncement:
            await self.acknowledge([delivery])  # whoever sent it: ids only, the rest is ignored
            return
        self._notice(task_ids, delivery)

    async def acknowledge(self, handles: Sequence[object]) -> None:
        """Tell the broker that these announcements did their work."""
        for handle in handles:
            if isinstance(handle, AbstractIncomingMessage):
                await self._tolerated(handle.ack())

    async def give_back(self, handles: Sequence[object]) -> None:
        """Let another consumer have these announcements."""
        for handle in handles:
            if isinstance(handle, AbstractIncomingMessage):
                await self._tolerated(handle.nack(requeue=True))

    async def pause(self) -> None:
        """Take no more announcements."""
        self._wanted = False
        for queue, source in self._consumed.items():
            await self._tolerated(source.cancel(self._tag(queue), timeout=_DEADLINE))

    async def resume(self) -> None:
        """Take announcements again."""
        self._wanted = True
        for queue in list(self._consumed):
            await self._tolerated(self._consume(queue))

    async def _tolerated(self, call: Awaitable[object]) -> None:
        # After the claim an ack is worth nothing, and a lost one costs nothing: never repeated.
        try:
            async with asyncio.timeout(_DEADLINE):
                await call
        except _AWAY:
            self._broken.set()
        except asyncio.CancelledError:
            if asked_to_stop():
                raise
            self._broken.set()


async def _close(connection: AbstractConnection) -> None:
    try:
        async with asyncio.timeout(_DEADLINE):
            await connection.close()
    except _AWAY:
        return
