"""Committed tasks are announced, once there is something to claim."""

import asyncio
from collections.abc import Sequence
from itertools import permutations
from uuid import UUID

import psycopg
import pytest

from integration.relay.ear import Ear, Recorder, listening, relaying
from support.factories import make_tasks
from support.rabbitmq import Vhost
from support.waiting import PATIENCE
from taskbell.producer import Producer
from taskbell.shared import wire
from taskbell.shared.database import conninfo
from taskbell.shared.events import BrokerFound, TasksAnnounced
from taskbell.shared.statements import claim


async def test_an_announcement_is_pleasant_reading(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    ids = make_tasks(database_url, 3, queue="mail", priority=7)

    async with listening(vhost.url, "mail") as ear, relaying(database_url, vhost.url, observe):
        await ear.hears(ids)

    (message,) = ear.messages
    assert message.type == wire.ANNOUNCEMENT_TYPE
    assert message.content_type == "application/json"
    assert message.app_id == "taskbell-relay"
    assert message.message_id
    assert message.timestamp is not None
    assert message.priority == 7
    assert message.expiration == 60  # seconds: nothing lies about for ever
    assert message.delivery_mode == 2
    assert message.headers == {"queue": "mail", "count": 3}
    assert message.routing_key == "mail"


async def test_the_connection_says_who_it_is(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    def names() -> list[str]:
        listed = vhost.server.management.request("GET", "vhosts", vhost.name, "connections")
        return [c["client_properties"].get("connection_name", "") for c in listed]

    async with relaying(database_url, vhost.url, observe):
        await observe.some(BrokerFound)
        async with asyncio.timeout(PATIENCE):
            while not await asyncio.to_thread(names):
                continue  # statistics of the management API are late
        (name,) = await asyncio.to_thread(names)

    assert name.startswith("taskbell-relay@")


async def test_many_tasks_travel_in_few_announcements(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    ids = make_tasks(database_url, 950) + make_tasks(database_url, 50, priority=9)

    async with listening(vhost.url) as ear, relaying(database_url, vhost.url, observe):
        await ear.hears(ids)

    assert sorted(len(wire.decode(m.body)) for m in ear.messages) == [50, 50, *[100] * 9]


async def test_what_is_announced_can_be_claimed(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    """A relay that published before its mark committed would fail here: SKIP LOCKED skips."""
    claimed: list[UUID] = []

    with psycopg.connect(conninfo(database_url), autocommit=True) as other:

        def claim_at_once(ids: Sequence[UUID]) -> None:
            rows = other.execute(
                claim.BY_IDS.for_psycopg,
                {
                    "task_ids": list(ids),
                    "limit": len(ids),
                    "worker_id": "w",
                    "lease": 30.0,
                    "lease_by_type": None,
                },
            ).fetchall()
            claimed.extend(row[0] for row in rows)

        async with listening(vhost.url) as ear, relaying(database_url, vhost.url, observe):
            ear.on_ids = claim_at_once
            ids: list[UUID] = []
            for _ in range(20):
                ids += make_tasks(database_url, 60)
                await ear.hears(ids)

    assert sorted(claimed) == sorted(ids)
    assert set(ear.counts.values()) == {1}


async def test_a_task_is_announced_when_it_is_due_and_not_before(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    far = make_tasks(database_url, 5, delay=3600)
    soon = make_tasks(database_url, 1, delay=1.5)
    now = make_tasks(database_url, 1)

    async with listening(vhost.url) as ear, relaying(database_url, vhost.url, observe):
        await ear.hears(now)
        before = set(ear.counts)
        await ear.hears(soon)

    assert before == set(now)
    assert not set(far) & set(ear.counts)


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("rolled_back", [False, True])
async def test_late_commits_are_announced_in_any_order(
    database_url: str,
    vhost: Vhost,
    observe: Recorder,
    order: tuple[int, ...],
    rolled_back: bool,  # noqa: FBT001 - a parameter of pytest
) -> None:
    """No cursor over ids could do this: ids and due times are older than what was announced."""
    producer = Producer()
    connections = [psycopg.connect(conninfo(database_url)) for _ in range(3)]
    try:
        ids = [producer.enqueue(connection, "noop", {}).task_id for connection in connections]
        async with listening(vhost.url) as ear, relaying(database_url, vhost.url, observe):
            for turn in order:
                if rolled_back and turn == 0:
                    connections[turn].rollback()
                else:
                    connections[turn].commit()
                    await ear.hears([ids[turn]])
    finally:
        for connection in connections:
            connection.close()

    assert set(ear.counts) == set(ids[1:] if rolled_back else ids)


async def test_the_head_of_a_partition_is_promoted_and_announced(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    producer = Producer()
    with psycopg.connect(conninfo(database_url)) as connection:
        head = producer.enqueue(connection, "noop", {}, partition_key="p").task_id
        behind = producer.enqueue(connection, "noop", {}, partition_key="p").task_id
        connection.commit()

    async with listening(vhost.url) as ear, relaying(database_url, vhost.url, observe):
        await ear.hears([head])

    assert behind not in ear.counts


async def test_relays_side_by_side_announce_everything_and_nothing_twice(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    other = Recorder()
    async with (
        listening(vhost.url) as ear,
        relaying(database_url, vhost.url, observe, batch=50),
        relaying(database_url, vhost.url, other, batch=50),
    ):
        # Each has met the broker: from then on no connection makes older marks worthless.
        await _announce_one_each(database_url, ear, [observe, other])
        # Nobody claims: together they must fit the window.
        ids = make_tasks(database_url, 1500)
        await ear.hears(ids)

    assert {ear.counts[task_id] for task_id in ids} == {1}


async def _announce_one_each(url: str, ear: Ear, observers: list[Recorder]) -> None:
    while not all(observe.of(TasksAnnounced) for observe in observers):
        await ear.hears(make_tasks(url))


async def test_a_relay_that_joins_announces_what_waits_once_more(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    ids = make_tasks(database_url, 300)

    async with listening(vhost.url) as ear, relaying(database_url, vhost.url, observe):
        await ear.hears(ids)
        async with relaying(database_url, vhost.url, Recorder()):
            await ear.hears(ids, times=2)
            late = make_tasks(database_url)
            await ear.hears(late)

    assert {ear.counts[task_id] for task_id in ids} == {2}
    assert ear.counts[late[0]] == 1


async def test_a_mark_that_brought_nobody_expires(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    ids = make_tasks(database_url, 2)

    async with listening(vhost.url) as ear, relaying(database_url, vhost.url, observe):
        await ear.hears(ids)
        with psycopg.connect(conninfo(database_url)) as connection:
            connection.execute(
                "UPDATE taskbell.outbox SET announced_at = announced_at - interval '31 seconds'"
                " WHERE task_id = %s",
                [ids[0]],
            )
        await ear.hears(ids[:1], times=2)

    assert ear.counts[ids[1]] == 1
