"""A RabbitMQ of our own: vhosts keep tests apart, and the node can be killed, wiped and blocked."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import aio_pika
import pytest
from aiormq.exceptions import ChannelAccessRefused

from services import RabbitMQ, ServiceError
from support.rabbitmq import Vhost

# A node needs ten to twenty seconds to start on a busy machine, and some tests start it twice.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(autouse=True)
async def no_loose_ends() -> AsyncIterator[None]:
    """Lets aiormq finish what its connections do in the background after they were closed."""
    yield
    running = asyncio.all_tasks() - {asyncio.current_task()}
    if running:
        await asyncio.wait(running, timeout=10)


async def publish(url: str) -> None:
    """Leaves one persistent, confirmed message in the durable queue `kept`."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await channel.declare_queue("kept", durable=True)
        message = aio_pika.Message(b"", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(message, "kept")


async def test_what_is_in_one_vhost_is_not_in_another(
    rabbitmq_server: RabbitMQ, vhost: Vhost
) -> None:
    other = Vhost(rabbitmq_server, f"{vhost.name}-other")

    await publish(vhost.url)

    assert (list(vhost.queues()), list(other.queues())) == (["kept"], [])
    other.drop()


async def test_messages_are_counted_at_once_and_purged(vhost: Vhost) -> None:
    await publish(vhost.url)
    counted = vhost.queues()["kept"].ready

    vhost.purge()

    assert (counted, vhost.queues()["kept"].ready) == (1, 0)


async def test_queues_are_deleted(vhost: Vhost) -> None:
    await publish(vhost.url)

    vhost.delete_queues()

    assert vhost.queues() == {}


async def test_closing_connections_ends_those_of_the_vhost_only(
    rabbitmq_server: RabbitMQ, vhost: Vhost
) -> None:
    other = Vhost(rabbitmq_server, f"{vhost.name}-other")
    ended = asyncio.Event()

    def note_end(*_: object) -> None:
        ended.set()

    mine = await aio_pika.connect(vhost.url)
    mine.close_callbacks.add(note_end)

    async with await aio_pika.connect(other.url) as spared:
        assert vhost.close_connections() == 1
        await ended.wait()

        assert not spared.is_closed
    other.drop()


async def test_a_user_may_do_what_its_permissions_say_and_no_more(vhost: Vhost) -> None:
    url = vhost.add_user("reader", configure="^$", write="^$", read=".*")
    await publish(vhost.url)

    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        queue = await channel.get_queue("kept", ensure=False)
        assert await queue.get(no_ack=True) is not None

        with pytest.raises(ChannelAccessRefused):
            await channel.declare_queue("new", durable=True)


async def test_a_killed_node_comes_back_with_what_it_had(private_vhost: Vhost) -> None:
    server = private_vhost.server
    await publish(private_vhost.url)
    server.flush()

    server.kill()
    address = urlsplit(private_vhost.url)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(address.hostname, address.port)
    server.start()

    assert private_vhost.queues()["kept"].ready == 1


async def test_a_wiped_node_comes_back_blank(private_vhost: Vhost) -> None:
    server = private_vhost.server
    await publish(private_vhost.url)

    server.kill()
    server.wipe()
    server.start()

    assert server.vhosts() == ["/"]


def test_under_a_memory_alarm_the_node_says_so(private_rabbitmq: RabbitMQ) -> None:
    private_rabbitmq.memory_alarm(on=True)

    # This is what blocks publishers; how they take it is the relay's test.
    assert not private_rabbitmq.management.answers("health", "checks", "alarms")


async def test_after_a_memory_alarm_publishing_goes_on(private_vhost: Vhost) -> None:
    private_vhost.server.memory_alarm(on=True)
    private_vhost.server.memory_alarm(on=False)

    await publish(private_vhost.url)

    assert private_vhost.queues()["kept"].ready == 1


def test_a_node_we_did_not_start_is_left_alone(rabbitmq_server: RabbitMQ) -> None:
    with pytest.raises(ServiceError, match="not started by us"):
        rabbitmq_server.kill()


def test_no_password_is_shown(rabbitmq_server: RabbitMQ) -> None:
    shown = f"{rabbitmq_server!r} {rabbitmq_server.management!r} {rabbitmq_server.management_url}"

    assert rabbitmq_server.password not in shown
