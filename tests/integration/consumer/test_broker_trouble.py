"""Whatever the broker does, tasks run and the worker stops when asked."""

import asyncio
import os

import aio_pika
import pytest

from integration.consumer.applications import gated, quick
from integration.consumer.broker import QUEUE, announce, declare, doors, wait_for_queue
from support.factories import make_tasks
from support.proxy import Proxy
from support.rabbitmq import Vhost
from support.waiting import PATIENCE
from support.workers import Reports, working
from taskbell.consumer import subscription
from taskbell.shared.events import BrokerFound, BrokerLost, QueueDiffers


async def test_a_broker_that_was_never_there_keeps_no_task_waiting(
    database_url: str, reports: Reports
) -> None:
    async with working(
        quick(), database_url, reports, amqp_url="amqp://127.0.0.1:1/", poll_interval=60
    ) as worker:
        await reports.some(BrokerLost)
        ids = make_tasks(database_url, 3, type="t")
        async with asyncio.timeout(30):
            await reports.settled(*ids)
        assert await worker.stopped()


async def test_a_deleted_queue_is_declared_again_and_announcements_arrive(
    database_url: str, vhost: Vhost, reports: Reports
) -> None:
    async with working(quick(), database_url, reports, amqp_url=vhost.url, poll_interval=60):
        await wait_for_queue(vhost, "it consumes", lambda queue: queue.consumers == 1)
        await asyncio.to_thread(vhost.delete_queues)
        await reports.some(BrokerFound, count=2)
        await wait_for_queue(vhost, "it consumes", lambda queue: queue.consumers == 1)
        (task_id,) = make_tasks(database_url, type="t")
        await announce(vhost.url, [task_id])
        await reports.settled(task_id)

    assert "announcement" in doors(reports)


async def test_a_queue_with_other_arguments_is_told_of_once_and_used(
    database_url: str, vhost: Vhost, reports: Reports
) -> None:
    connection = await aio_pika.connect(vhost.url, timeout=PATIENCE)
    async with connection, connection.channel() as channel:
        await channel.declare_queue(QUEUE, durable=True)
    async with working(quick(), database_url, reports, amqp_url=vhost.url, poll_interval=60):
        await wait_for_queue(vhost, "it consumes", lambda queue: queue.consumers == 1)
        await asyncio.to_thread(vhost.close_connections)
        await reports.some(BrokerFound, count=2)
        (task_id,) = make_tasks(database_url, type="t")
        await announce(vhost.url, [task_id])
        await reports.settled(task_id)

    (differs,) = reports.of(QueueDiffers)
    assert "PRECONDITION_FAILED" in differs.error


async def test_who_may_only_read_polls_until_somebody_declares_the_queue(
    database_url: str, vhost: Vhost, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "_LOOK_SECONDS", 0.2)
    url = vhost.add_user("reader", configure="^$", write="^$", read=r"^taskbell\.q\..*")
    async with working(quick(), database_url, reports, amqp_url=url, poll_interval=60):
        await reports.some(QueueDiffers)
        (unannounced,) = make_tasks(database_url, type="t")
        await reports.settled(unannounced)
        await declare(vhost.url)
        await wait_for_queue(vhost, "it consumes", lambda queue: queue.consumers == 1)
        (task_id,) = make_tasks(database_url, type="t")
        await announce(vhost.url, [task_id])
        await reports.settled(task_id)

    (differs,) = reports.of(QueueDiffers)
    assert "NOT_FOUND" in differs.error
    assert reports.of(BrokerLost) == []


async def test_many_reconnects_leave_nothing_behind(
    database_url: str, vhost: Vhost, reports: Reports
) -> None:
    async with (
        Proxy.before(vhost.url) as proxy,
        working(quick(), database_url, reports, amqp_url=proxy.through(vhost.url)),
    ):
        await reports.some(BrokerFound, count=2 - 1)
        await proxy.wait_connections(1)
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - only their number counts
        for number in range(2, 22):
            proxy.cut()
            await reports.some(BrokerFound, count=number)
        await proxy.wait_connections(1)
        after = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - only their number counts
        (task_id,) = make_tasks(database_url, type="t")
        await announce(vhost.url, [task_id])
        await reports.settled(task_id)

    assert after <= before + 2


async def test_a_silent_broker_keeps_neither_tasks_nor_the_shutdown_waiting(
    database_url: str, vhost: Vhost, reports: Reports
) -> None:
    app, gate = gated()

    async with (
        Proxy.before(vhost.url) as proxy,
        working(
            app, database_url, reports, amqp_url=proxy.through(vhost.url), poll_interval=0.2,
            slots=1,
        ) as worker,
    ):  # fmt: skip
        await wait_for_queue(vhost, "it consumes", lambda queue: queue.consumers == 1)
        (first,) = make_tasks(database_url, type="t")
        await gate.begun.wait()
        others = make_tasks(database_url, 20, type="t")
        await announce(vhost.url, *([each] for each in others))
        await wait_for_queue(vhost, "it holds ids", lambda queue: queue.unacknowledged > 0)
        proxy.silence()
        gate.go_on.set()
        async with asyncio.timeout(30):
            await reports.settled(first, *others)
            assert await worker.stopped()


async def test_what_a_broken_connection_brought_does_not_break_the_next(
    database_url: str, vhost: Vhost, reports: Reports
) -> None:
    app, gate = gated()

    given = {"slots": 1, "poll_interval": 60.0}
    async with (
        Proxy.before(vhost.url) as proxy,
        working(app, database_url, reports, amqp_url=proxy.through(vhost.url), **given),
    ):
        await wait_for_queue(vhost, "it consumes", lambda queue: queue.consumers == 1)
        ids = make_tasks(database_url, 6, type="t")
        await announce(vhost.url, *([each] for each in ids))
        await gate.begun.wait()
        await wait_for_queue(vhost, "it holds ids", lambda queue: queue.unacknowledged > 0)
        proxy.cut()
        await reports.some(BrokerFound, count=2)
        gate.go_on.set()
        await reports.settled(*ids)
        await wait_for_queue(
            vhost, "all is acked", lambda queue: (queue.ready, queue.unacknowledged) == (0, 0)
        )

    assert len(reports.of(BrokerLost)) == 1
