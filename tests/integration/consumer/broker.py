"""What the tests of the consumer do to its broker queue: declare, announce, look."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import cast
from uuid import UUID

import aio_pika

from services import QueueState
from support.rabbitmq import Vhost
from support.waiting import PATIENCE, wait_until
from support.workers import Reports
from taskbell.shared import wire
from taskbell.shared.events import TasksClaimed
from taskbell.shared.ids import TaskId
from taskbell.shared.topology import EXCHANGE, broker_queue

QUEUE = "taskbell.q.default"


def doors(reports: Reports) -> list[str]:
    """By which door each claim that took something came in."""
    return [each.door for each in reports.of(TasksClaimed) if each.tasks]


async def declare(url: str, queue: str = "default") -> None:
    """Exchange, queue and binding, as the relay makes them."""
    connection = await aio_pika.connect(url, timeout=PATIENCE)
    async with connection, connection.channel() as channel:
        wanted = broker_queue(queue)
        await channel.declare_exchange(EXCHANGE, "direct", durable=True)
        made = await channel.declare_queue(
            wanted.name, durable=True, arguments=dict(wanted.arguments)
        )
        await made.bind(EXCHANGE, wanted.routing_key)


async def announce(url: str, *groups: Collection[UUID]) -> None:
    """One announcement for each group of ids; the queue is there already."""
    await publish(url, *(wire.encode(cast("Sequence[TaskId]", list(each))) for each in groups))


async def publish(url: str, *bodies: bytes) -> None:
    """Messages to the default queue, confirmed."""
    connection = await aio_pika.connect(url, timeout=PATIENCE)
    async with connection, connection.channel() as channel:
        for body in bodies:
            await channel.default_exchange.publish(aio_pika.Message(body), QUEUE, timeout=PATIENCE)


async def wait_for_queue(vhost: Vhost, what: str, when: Callable[[QueueState], bool]) -> None:
    """Return once the default queue is there and in this state."""

    def look() -> bool:
        state = vhost.queues().get(QUEUE)
        return state is not None and when(state)

    await asyncio.to_thread(wait_until, what, look)
