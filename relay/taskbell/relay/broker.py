"""RabbitMQ's side of the relay: connect, and declare what may be declared."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final
from uuid import uuid4

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection
from aio_pika.exceptions import (
    CONNECTION_EXCEPTIONS,
    ChannelClosed,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
)
from aiormq.exceptions import ChannelAccessRefused, ChannelLockedResource

from taskbell.relay.coalesce import Announcement
from taskbell.shared import wire
from taskbell.shared.amqp import BrokerAway, broken_is_away, introduction, with_heartbeat
from taskbell.shared.statements.outbox import MARK_SECONDS
from taskbell.shared.topology import EXCHANGE, BrokerQueue, QueueType, broker_queue

_REFUSALS: Final = (
    ChannelAccessRefused,
    ChannelLockedResource,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
)
_CLOSE_SECONDS: Final = 3.0
# By then the mark has expired and the tasks were announced again: where nobody consumes, a queue
# without a policy does not grow by a copy for each half minute. RabbitMQ looks at the head of the
# highest priority alone, though: below others that keep coming nothing expires.
_EXPIRES_SECONDS: Final = 2 * MARK_SECONDS


class State(StrEnum):
    """What was found, or made, of an entity."""

    READY = "ready"
    DIFFERS = "exists with other arguments"
    MISSING = "does not exist"


@dataclass(frozen=True, slots=True)
class Finding:
    """An entity and its state; ``detail`` is the broker's own sentence."""

    name: str
    state: State
    detail: str = ""

    @property
    def ready(self) -> bool:
        """Whether announcements can go through it as they should."""
        return self.state is State.READY

    def __str__(self) -> str:
        """One line for people."""
        return f"{self.state}: {self.detail}" if self.detail else self.state.value


def translated() -> AbstractContextManager[None]:
    """Turn every way in which a connection breaks into ``BrokerAway``."""
    return broken_is_away(CONNECTION_EXCEPTIONS)  # among them OSError, which TimeoutError is


async def connect(url: str, role: str, deadline: float) -> AbstractConnection:
    """Open a connection that is pleasant reading in the management UI; raises ``BrokerAway``."""
    properties = introduction(role, f"{role}@{socket.gethostname()}/{os.getpid()}")
    with translated():
        async with asyncio.timeout(deadline):
            return await aio_pika.connect(with_heartbeat(url), client_properties=properties)


async def close(connection: AbstractConnection) -> None:
    """Close what may be broken already; returns within three seconds."""
    with suppress(BrokerAway), translated():
        async with asyncio.timeout(_CLOSE_SECONDS):
            await connection.close()


async def open_channel(
    connection: AbstractConnection, deadline: float, *, confirms: bool
) -> AbstractChannel:
    """Open a channel; with ``confirms`` a message that no queue takes raises too."""
    channel = connection.channel(publisher_confirms=confirms, on_return_raises=confirms)
    async with asyncio.timeout(deadline):
        await channel.initialize()
    return channel


class Topology:
    """Declares the exchange and queues over one connection, on channels of its own.

    ``declare=False`` only looks. Everything raises ``BrokerAway``, and ``ValueError`` for a name
    that AMQP or its client cannot carry.
    """

    def __init__(
        self,
        connection: AbstractConnection,
        *,
        declare: bool,
        queue_type: QueueType,
        deadline: float,
    ) -> None:
        self._connection = connection
        self._declare = declare
        self._queue_type = queue_type
        self._deadline = deadline
        self._channel: AbstractChannel | None = None

    async def exchange(self) -> Finding:
        """Declare the exchange, or look for it where declaring is refused."""
        refusal = await self._attempt(_declare_exchange) if self._declare else None
        if isinstance(refusal, ChannelAccessRefused) or not self._declare:
            refusal = await self._attempt(_look_for_exchange)
        return _finding(EXCHANGE, refusal)

    async def queue(self, queue: str) -> Finding:
        """Declare a queue and bind it; one with other arguments is bound all the same."""
        wanted = broker_queue(queue, self._queue_type)
        if not self._declare:
            return Finding(wanted.name, State.READY)
        refusal = await self._attempt(lambda channel: _declare_queue(channel, wanted))
        if isinstance(refusal, ChannelAccessRefused):
            return _finding(wanted.name, await self._attempt(lambda c: _look_for_queue(c, wanted)))
        # A refused binding may exist already; if not, what is published comes back.
        await self._attempt(lambda channel: _bind(channel, wanted))
        return _finding(wanted.name, refusal)

    async def _attempt(
        self, act: Callable[[AbstractChannel], Awaitable[object]]
    ) -> ChannelClosed | None:
        """Act, and return the broker's refusal, which closes the channel."""
        channel, self._channel = self._channel, None
        with translated():
            if channel is None or channel.is_closed:
                channel = await open_channel(self._connection, self._deadline, confirms=False)
            try:
                async with asyncio.timeout(self._deadline):
                    await act(channel)
            except _REFUSALS as refusal:
                return refusal
            except ValueError:  # nothing was sent
                self._channel = channel
                raise
        # Kept only after an answer: a channel whose call timed out is of no more use.
        self._channel = channel
        return None


def _finding(name: str, refusal: ChannelClosed | None) -> Finding:
    match refusal:
        case None:
            return Finding(name, State.READY)
        case ChannelAccessRefused():
            # Even looking is refused: then it may well be there. Publishing will tell.
            return Finding(name, State.READY)
        case ChannelNotFoundEntity():
            return Finding(name, State.MISSING, "taskbell broker apply makes it")
        case _:
            return Finding(name, State.DIFFERS, str(refusal))


async def _declare_exchange(channel: AbstractChannel) -> object:
    return await channel.declare_exchange(EXCHANGE, aio_pika.ExchangeType.DIRECT, durable=True)


async def _look_for_exchange(channel: AbstractChannel) -> object:
    return await channel.declare_exchange(EXCHANGE, passive=True)


async def _declare_queue(channel: AbstractChannel, wanted: BrokerQueue) -> object:
    return await channel.declare_queue(wanted.name, durable=True, arguments=dict(wanted.arguments))


async def _look_for_queue(channel: AbstractChannel, wanted: BrokerQueue) -> object:
    return await channel.declare_queue(wanted.name, passive=True)


async def _bind(channel: AbstractChannel, wanted: BrokerQueue) -> object:
    queue = await channel.get_queue(wanted.name, ensure=False)
    return await queue.bind(EXCHANGE, routing_key=wanted.routing_key)


def envelope(announcement: Announcement) -> aio_pika.Message:
    """Return an announcement as an AMQP message that is pleasant reading in the management UI."""
    return aio_pika.Message(
        wire.encode(announcement.task_ids),
        content_type=wire.CONTENT_TYPE,
        content_encoding="utf-8",
        delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
        expiration=_EXPIRES_SECONDS,
        priority=announcement.priority,
        message_id=str(uuid4()),  # also how the client finds whose publish was returned
        timestamp=datetime.now(UTC),
        type=wire.ANNOUNCEMENT_TYPE,
        app_id="taskbell-relay",
        headers={"queue": announcement.queue, "count": len(announcement.task_ids)},
    )
