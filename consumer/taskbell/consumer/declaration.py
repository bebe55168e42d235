"""Declares the queues announcements come from, or finds them, where declaring is not ours."""

from aio_pika.abc import AbstractConnection
from aiormq.exceptions import ChannelAccessRefused, ChannelClosed

from taskbell.consumer.link import answered, open_channel
from taskbell.shared.events import Observer, QueueDiffers
from taskbell.shared.topology import BrokerQueue


class Declaration:
    """Declares queues, and says of each at most once that it is not as it should be."""

    def __init__(self, observe: Observer) -> None:
        self._observe = observe
        self._told: set[str] = set()

    async def declare(self, connection: AbstractConnection, wanted: BrokerQueue) -> bool:
        """Declare the queue if we may; answers whether it is there. Raises ``BrokerAway``.

        One with other arguments serves as well.
        """
        refusal = await self._refusal(connection, wanted, passive=False)
        if refusal is None:
            return True
        if not isinstance(refusal, ChannelAccessRefused):
            self._tell(wanted, refusal)
        refusal = await self._refusal(connection, wanted, passive=True)
        if refusal is not None:
            self._tell(wanted, refusal)
        return refusal is None

    async def _refusal(
        self, connection: AbstractConnection, wanted: BrokerQueue, *, passive: bool
    ) -> ChannelClosed | None:
        async with answered():
            # A refusal closes its channel, so each try has one of its own.
            channel = await open_channel(connection)
            try:
                await channel.declare_queue(
                    wanted.name, durable=True, passive=passive, arguments=dict(wanted.arguments)
                )
            except ChannelClosed as refusal:
                return refusal
            await channel.close()
        return None

    def _tell(self, wanted: BrokerQueue, refusal: ChannelClosed) -> None:
        if wanted.routing_key not in self._told:
            self._told.add(wanted.routing_key)
            self._observe(QueueDiffers(wanted.routing_key, str(refusal)))
