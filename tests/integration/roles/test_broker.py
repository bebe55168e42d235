"""RabbitMQ's users: what their roles need, and nothing else."""

import shlex
from collections.abc import Awaitable, Callable

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel
from aiormq.exceptions import ChannelAccessRefused

from services import RabbitMQ
from support.rabbitmq import Vhost
from taskbell.relay import permissions
from taskbell.relay.application import apply_topology
from taskbell.relay.permissions import BrokerUser
from taskbell.shared.topology import EXCHANGE, QueueType

QUEUE = "taskbell.q.mail"
Deed = Callable[[AbstractChannel], Awaitable[object]]


async def _publish(channel: AbstractChannel) -> object:
    exchange = await channel.get_exchange(EXCHANGE, ensure=False)
    return await exchange.publish(aio_pika.Message(b"[]"), "mail")


async def _publish_elsewhere(channel: AbstractChannel) -> object:
    return await channel.default_exchange.publish(aio_pika.Message(b"[]"), QUEUE)


async def _declare(channel: AbstractChannel) -> object:
    return await channel.declare_queue("taskbell.q.mine", durable=True)


async def _declare_exchange(channel: AbstractChannel) -> object:
    return await channel.declare_exchange("taskbell.mine")


async def _bind(channel: AbstractChannel) -> object:
    return await (await channel.get_queue(QUEUE, ensure=False)).bind(EXCHANGE, "another")


async def _consume(channel: AbstractChannel) -> object:
    return await (await channel.get_queue(QUEUE, ensure=False)).consume(_ignore)


async def _purge(channel: AbstractChannel) -> object:
    return await (await channel.get_queue(QUEUE, ensure=False)).purge()


async def _delete(channel: AbstractChannel) -> object:
    return await channel.queue_delete(QUEUE)


async def _ignore(_message: object) -> None:
    return


def _url(vhost: Vhost, user: BrokerUser) -> str:
    return vhost.add_user(user.name, configure=user.configure, write=user.write, read=user.read)


async def _do(url: str, deed: Deed) -> None:
    connection = await aio_pika.connect(url)
    try:
        await deed(await connection.channel(on_return_raises=True))
    finally:
        await connection.close()


@pytest.fixture
async def furnished(vhost: Vhost) -> Vhost:
    """A vhost with the exchange and one queue."""
    await apply_topology(vhost.url, ["mail"], QueueType.CLASSIC, lambda _: None)
    return vhost


@pytest.mark.parametrize(
    ("user", "deed"),
    [(permissions.RELAY, _publish), (permissions.CONSUMER, _consume)]
    + [(permissions.ADMIN, deed) for deed in (_declare, _declare_exchange, _bind, _delete)],
)
async def test_a_user_may(furnished: Vhost, user: BrokerUser, deed: Deed) -> None:
    await _do(_url(furnished, user), deed)


@pytest.mark.parametrize(
    ("user", "deed"),
    [
        (permissions.RELAY, deed)
        for deed in (_publish_elsewhere, _declare, _declare_exchange, _bind, _consume, _purge)
    ]
    + [
        (permissions.CONSUMER, deed)
        for deed in (_publish, _publish_elsewhere, _declare, _declare_exchange, _bind, _delete)
    ]
    + [(permissions.MONITOR, deed) for deed in (_publish, _consume, _declare, _delete)],
)
async def test_a_user_must_not(furnished: Vhost, user: BrokerUser, deed: Deed) -> None:
    with pytest.raises(ChannelAccessRefused):
        await _do(_url(furnished, user), deed)


async def test_rabbitmqctl_takes_the_lines(private_rabbitmq: RabbitMQ) -> None:
    vhost = Vhost(private_rabbitmq, "taskbell")
    await apply_topology(vhost.url, ["mail"], QueueType.CLASSIC, lambda _: None)
    name = permissions.RELAY.name
    url = private_rabbitmq.add_user(
        name, "secret", "taskbell", configure=".*", write=".*", read=".*"
    )
    for line in permissions.commands("taskbell"):
        words = shlex.split(line, comments=True)[1:]
        if name in words and words[0] == "set_permissions":
            private_rabbitmq.control(*words)

    await _do(url, _publish)
    with pytest.raises(ChannelAccessRefused):
        await _do(url, _declare)
