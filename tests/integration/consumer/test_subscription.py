"""Announcements start tasks early, and without any the poll finds them."""

import asyncio
import json
import os
import pickle
from uuid import uuid4

import psycopg

from integration.consumer.applications import gated, quick
from integration.consumer.broker import announce, declare, doors, publish, wait_for_queue
from support.factories import make_tasks
from support.rabbitmq import Vhost
from support.workers import Reports, task_of, working
from taskbell.shared.database import conninfo
from taskbell.shared.events import BrokerLost


async def test_an_announced_task_is_claimed_by_its_id_and_acked_before_its_handler_ends(
    database_url: str, vhost: Vhost, reports: Reports
) -> None:
    app, gate = gated()

    await declare(vhost.url)
    async with working(app, database_url, reports, amqp_url=vhost.url, poll_interval=60):
        await wait_for_queue(vhost, "it consumes", lambda queue: queue.consumers == 1)
        (task_id,) = make_tasks(database_url, type="t")
        await announce(vhost.url, [task_id])
        await gate.begun.wait()
        await wait_for_queue(
            vhost, "it is acked", lambda queue: (queue.ready, queue.unacknowledged) == (0, 0)
        )
        gate.go_on.set()
        await reports.settled(task_id)

    assert doors(reports) == ["announcement"]


async def test_nothing_is_acked_before_its_claim_is_committed(
    database_url: str, vhost: Vhost, reports: Reports
) -> None:
    await declare(vhost.url)
    async with working(quick(), database_url, reports, amqp_url=vhost.url, poll_interval=60):
        await wait_for_queue(vhost, "it consumes", lambda queue: queue.consumers == 1)
        (task_id,) = make_tasks(database_url, type="t")
        with psycopg.connect(conninfo(database_url)) as blocker:
            blocker.execute("LOCK TABLE taskbell.lease IN ACCESS EXCLUSIVE MODE")
            await announce(vhost.url, [task_id])
            await wait_for_queue(vhost, "it is held", lambda queue: queue.unacknowledged == 1)
        await reports.settled(task_id)
        await wait_for_queue(vhost, "it is acked", lambda queue: queue.unacknowledged == 0)


async def test_whatever_else_is_sent_is_ignored_and_acked(
    database_url: str, vhost: Vhost, reports: Reports
) -> None:
    await declare(vhost.url)
    async with working(quick(), database_url, reports, amqp_url=vhost.url, poll_interval=60):
        await wait_for_queue(vhost, "it consumes", lambda queue: queue.consumers == 1)
        await publish(
            vhost.url,
            b"", b"\xff\x00", b"{}", b"[]", b'"x"', b'["x"]', b"[1]", b"null", b"[" * 5000,
            pickle.dumps(os.getcwd), b"x" * 1_000_000, json.dumps([str(uuid4())] * 101).encode(),
            json.dumps([str(uuid4()) for _ in range(100)]).encode(),
            json.dumps({"type": "t", "handler": "os.system"}).encode(),
        )  # fmt: skip
        (task_id,) = make_tasks(database_url, type="t")
        await announce(vhost.url, [task_id])
        await reports.settled(task_id)
        await wait_for_queue(
            vhost, "all is acked", lambda queue: (queue.ready, queue.unacknowledged) == (0, 0)
        )

    assert reports.of(BrokerLost) == []


async def test_a_saturated_worker_gives_ids_back_and_an_idle_one_takes_them(
    database_url: str, vhost: Vhost, reports: Reports
) -> None:
    busy, gate = gated()

    await declare(vhost.url)
    (first,) = make_tasks(database_url, type="t")
    theirs = Reports()
    given = {"amqp_url": vhost.url, "poll_interval": 60.0}
    async with working(busy, database_url, reports, slots=1, **given):
        await gate.begun.wait()
        async with working(quick(), database_url, theirs, **given):
            await wait_for_queue(vhost, "both consume", lambda queue: queue.consumers == 2)
            ids = make_tasks(database_url, 4, type="t")
            await announce(vhost.url, *([each] for each in ids))  # two to each, by turns
            async with asyncio.timeout(30):
                await theirs.settled(*ids)
            await wait_for_queue(vhost, "it consumes no more", lambda queue: queue.consumers == 1)
            gate.go_on.set()
            await reports.settled(first)
            await wait_for_queue(vhost, "it consumes again", lambda queue: queue.consumers == 2)

    assert set(doors(theirs)) == {"announcement"}


async def test_without_any_announcement_the_poll_finds_the_tasks(
    database_url: str, vhost: Vhost, reports: Reports
) -> None:
    async with working(quick(), database_url, reports, amqp_url=vhost.url, poll_interval=0.5):
        await wait_for_queue(vhost, "it consumes", lambda queue: queue.consumers == 1)
        ids = make_tasks(database_url, 3, type="t")
        await reports.settled(*ids)

    assert set(doors(reports)) == {"poll"}


async def test_a_redelivered_announcement_of_a_finished_task_changes_nothing(
    database_url: str, vhost: Vhost, reports: Reports
) -> None:
    async with working(quick(), database_url, reports, amqp_url=vhost.url):
        await wait_for_queue(vhost, "it consumes", lambda queue: queue.consumers == 1)
        (task_id,) = make_tasks(database_url, type="t")
        await announce(vhost.url, [task_id], [task_id])
        await reports.settled(task_id)
        await announce(vhost.url, [task_id])
        await wait_for_queue(
            vhost, "all is acked", lambda queue: (queue.ready, queue.unacknowledged) == (0, 0)
        )

    assert task_of(database_url, task_id).attempt_count == 1
