"""What RabbitMQ does not take is taken back, tried again, and never stops the others."""

import aio_pika
import psycopg
import pytest

from integration.relay.ear import Recorder, listening, relaying, unmarked
from support.factories import make_tasks
from support.rabbitmq import Vhost
from taskbell.relay.application import apply_topology
from taskbell.relay.lane import Fate
from taskbell.shared.database import conninfo
from taskbell.shared.events import (
    AnnouncementRefused,
    BrokerLost,
    QueueDiffers,
    TasksAnnounced,
)
from taskbell.shared.topology import EXCHANGE, QueueType

_RELAY = {"configure": "^$", "write": r"^taskbell\.announce$", "read": "^$"}


def _bound(vhost: Vhost, queue: str, length: int) -> None:
    vhost.server.management.request(
        "PUT",
        "policies",
        vhost.name,
        "bound",
        body={
            "pattern": rf"^taskbell\.q\.{queue}$",
            "definition": {"max-length": length, "overflow": "reject-publish"},
            "apply-to": "queues",
        },
    )


async def test_a_full_queue_waits_and_the_others_flow(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    _bound(vhost, "full", 1)
    async with listening(vhost.url, "free") as ear, relaying(database_url, vhost.url, observe):
        first = make_tasks(database_url, queue="full")
        await observe.some(TasksAnnounced, lambda e: e.queue == "full")
        refused = make_tasks(database_url, 150, queue="full")
        event = await observe.some(AnnouncementRefused)
        free = make_tasks(database_url, 300, queue="free")
        await ear.hears(free)
        while unmarked(database_url, refused) < len(refused):
            await observe.next(AnnouncementRefused)

        async with listening(vhost.url, "full") as full:
            await full.hears(first + refused)

    assert event.queue == "full"
    assert event.reason == Fate.REFUSED
    assert not [e for e in observe.of(AnnouncementRefused) if e.queue == "free"]
    assert set(ear.counts.values()) == {1}


async def test_a_queue_that_is_deleted_is_declared_again(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    async with relaying(database_url, vhost.url, observe, redeclare_after=0.0):
        make_tasks(database_url)
        await observe.some(TasksAnnounced)
        vhost.delete_queues()

        ids = make_tasks(database_url)
        event = await observe.next(AnnouncementRefused)
        async with listening(vhost.url) as ear:
            await ear.hears(ids)

    assert event.reason == Fate.RETURNED


async def test_without_the_right_to_declare_tasks_wait_for_somebody_who_may(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    await apply_topology(vhost.url, [], QueueType.CLASSIC, _silent)
    url = vhost.add_user("relay", **_RELAY)
    ids = make_tasks(database_url, 3)

    async with relaying(database_url, url, observe):
        missing = await observe.some(QueueDiffers)
        event = await observe.some(AnnouncementRefused)
        async with listening(vhost.url) as ear:
            await ear.hears(ids)

    assert "does not exist" in missing.error
    assert "taskbell broker apply" in missing.error
    assert event.reason == Fate.RETURNED
    assert event.tasks == 3


async def test_a_relay_that_declares_nothing_needs_one_right(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    url = vhost.add_user("relay", **_RELAY)
    ids = make_tasks(database_url, 3)

    async with listening(vhost.url) as ear, relaying(database_url, url, observe, declare=False):
        await ear.hears(ids)

    assert not observe.of(QueueDiffers)


async def test_no_exchange_means_no_marks(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    ids = make_tasks(database_url, 3)

    async with relaying(database_url, vhost.url, observe, declare=False):
        lost = await observe.some(BrokerLost)
        assert unmarked(database_url, ids) == 3
        async with listening(vhost.url) as ear:
            await ear.hears(ids)

    assert EXCHANGE in lost.error


async def test_an_exchange_that_vanishes_is_made_again(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    async with relaying(database_url, vhost.url, observe):
        make_tasks(database_url)
        await observe.some(TasksAnnounced)
        vhost.server.management.request("DELETE", "exchanges", vhost.name, EXCHANGE)

        ids = make_tasks(database_url)
        async with listening(vhost.url) as ear:
            await ear.hears(ids)


@pytest.mark.parametrize("queue", ["!", "año", "a*b"])
async def test_a_name_that_rabbitmq_cannot_carry_stops_nobody(
    database_url: str, vhost: Vhost, observe: Recorder, queue: str
) -> None:
    bad = make_tasks(database_url, queue=queue)
    ids = make_tasks(database_url, 99, queue="good")

    async with listening(vhost.url, "good") as ear, relaying(database_url, vhost.url, observe):
        event = await observe.some(AnnouncementRefused)
        await ear.hears(ids)

    assert (event.queue, event.reason) == (queue, Fate.UNSENDABLE)
    assert len(ear.messages) == 1  # all in one pass
    assert unmarked(database_url, bad) == 1
    assert len(observe.of(AnnouncementRefused)) == 1


async def test_a_name_that_is_too_long_for_amqp_stops_nobody(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    longest = "x" * 300
    bad = make_tasks(database_url, queue="a")
    with psycopg.connect(conninfo(database_url)) as connection:
        connection.execute("UPDATE taskbell.outbox SET queue = %s", [longest])
    ids = make_tasks(database_url, 99, queue="z")

    async with listening(vhost.url, "z") as ear, relaying(database_url, vhost.url, observe):
        event = await observe.some(AnnouncementRefused)
        await ear.hears(ids)

    assert event.queue == longest
    assert unmarked(database_url, bad) == 1


async def test_a_name_that_fails_only_when_published_stops_nobody(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    bad = make_tasks(database_url, 2, queue="año")
    ids = make_tasks(database_url, 99, queue="good")
    with psycopg.connect(conninfo(database_url)) as connection:
        connection.execute("UPDATE taskbell.outbox SET queue = %s WHERE queue = 'año'", ["ñ" * 200])

    async with (
        listening(vhost.url, "good") as ear,
        relaying(database_url, vhost.url, observe, declare=False),
    ):
        event = await observe.some(AnnouncementRefused)
        await ear.hears(ids)
        await ear.hears(make_tasks(database_url, queue="good"))

    assert event.reason == Fate.UNSENDABLE
    assert unmarked(database_url, bad) == 2


async def test_a_queue_with_other_arguments_is_reported_once_and_used(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    connection = await aio_pika.connect(vhost.url)
    channel = await connection.channel()
    await channel.declare_queue("taskbell.q.default", durable=True, arguments={"x-max-priority": 5})

    make_tasks(database_url)
    async with relaying(database_url, vhost.url, observe):
        differs = await observe.some(QueueDiffers)
        async with listening(vhost.url, declare=False) as ear:
            for _ in range(3):
                await ear.hears(make_tasks(database_url))
    await connection.close()

    assert "x-max-priority" in differs.error
    assert len(observe.of(QueueDiffers)) == 1
    assert not observe.of(BrokerLost)


def _silent(line: str) -> None:
    del line
