"""One connection to RabbitMQ: its channel, its broker consumers, the announcements it brings.

Every call has a deadline, whatever breaks becomes ``BrokerAway``, and a real shutdown passes.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Self

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage
from aio_pika.exceptions import CONNECTION_EXCEPTIONS

from taskbell.shared.amqp import BrokerAway, broken_is_away, introduction, with_heartbeat
from taskbell.shared.ids import WorkerId

_PREFETCH = 10
_DEADLINE = 5.0
_CLOSE_DEADLINE = 1.0
_WORKER_IN_TAG = 54  # with a queue name of 200 bytes a tag has at most AMQP's 255


@asynccontextmanager
async def answered(deadline: float = _DEADLINE) -> AsyncGenerator[None]:
    """Turn every way in which a connection breaks, silence included, into ``BrokerAway``."""
    with broken_is_away(CONNECTION_EXCEPTIONS):  # among them OSError, which TimeoutError is
        async with asyncio.timeout(deadline):
            yield


async def open_channel(connection: AbstractConnection) -> AbstractChannel:
    """Open a channel; to be called under ``answered``."""
    channel = connection.channel(publisher_confirms=False)
    await channel.initialize()
    return channel


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """One message, and the link that brought it: only there can it be answered."""

    link: "Link"
    message: AbstractIncomingMessage


class Link:
    """A connection, and the channel on which announcements arrive."""

    def __init__(
        self,
        connection: AbstractConnection,
        worker_id: WorkerId,
        notice: Callable[[Delivery], None],
        stirred: Callable[[], None],
    ) -> None:
        self.connection = connection
        self.broken = False
        """Whether connection, channel or a broker consumer ended; then the link is of no use."""
        self.consumed: set[str] = set()
        """The queues whose announcements are delivered."""
        self._worker_id = worker_id
        self._notice = notice
        self._stirred = stirred
        self._channel: AbstractChannel

    @classmethod
    async def open(
        cls,
        url: str,
        worker_id: WorkerId,
        notice: Callable[[Delivery], None],
        stirred: Callable[[], None],
    ) -> Self:
        """Connect; raises ``BrokerAway``.

        ``notice`` is called with what is delivered, ``stirred`` when the link broke.
        """
        async with answered():
            connection = await aio_pika.connect(
                with_heartbeat(url), client_properties=introduction("consumer", worker_id)
            )
        link = cls(connection, worker_id, notice, stirred)
        try:
            await link._open_channel()
        except BaseException:  # a shutdown, too, must not leave it open
            await link.close()
            raise
        return link

    async def _open_channel(self) -> None:
        async with answered():
            channel = self._channel = await open_channel(self.connection)
            channel.close_callbacks.add(self._note_broken)
            self.connection.close_callbacks.add(self._note_broken)
            underlay = await channel.get_underlay_channel()
            underlay.on_consumer_cancel_callbacks.add(self._note_broken)
            await channel.set_qos(prefetch_count=_PREFETCH)

    def _note_broken(self, *_: object) -> None:
        self.broken = True
        self._stirred()

    async def consume(self, queue: str, name: str) -> None:
        """Have announcements of a queue, which exists, delivered; raises ``BrokerAway``."""
        if queue not in self.consumed:
            async with answered():
                source = await self._channel.get_queue(name, ensure=False)
                await source.consume(self._take, consumer_tag=self._tag(queue))
            self.consumed.add(queue)

    async def cancel(self, queue: str, name: str) -> None:
        """Have none delivered any more; raises ``BrokerAway``."""
        if queue in self.consumed:
            async with answered():
                source = await self._channel.get_queue(name, ensure=False)
                await source.cancel(self._tag(queue))
            self.consumed.remove(queue)

    async def _take(self, message: AbstractIncomingMessage) -> None:
        # Whatever ran in here would be cancelled with the connection: note, and return.
        self._notice(Delivery(self, message))

    def _tag(self, queue: str) -> str:
        return f"{self._worker_id[-_WORKER_IN_TAG:]}.{queue}"

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Tell the broker that these did their work; raises ``BrokerAway``."""
        async with answered():
            for each in self._own(deliveries):
                await each.message.ack()

    async def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """Let another consumer have these; raises ``BrokerAway``."""
        async with answered():
            for each in self._own(deliveries):
                await each.message.nack(requeue=True)

    def _own(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        # What another link brought went back to the broker when that one broke.
        return [each for each in deliveries if each.link is self]

    async def close(self) -> None:
        """Close it, broken or not; returns within a second."""
        with suppress(BrokerAway):
            async with answered(_CLOSE_DEADLINE):
                await self.connection.close()
