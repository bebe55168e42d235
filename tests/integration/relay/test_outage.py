"""Whatever is away is waited for, and what it lost is announced anew."""

import asyncio
from pathlib import Path

from integration.relay.ear import Recorder, listening, relaying, unmarked
from services import Postgres, RabbitMQ
from support.factories import make_tasks
from support.proxy import Direction, Proxy
from support.rabbitmq import Vhost
from taskbell.relay.lane import Fate
from taskbell.shared.database import Database
from taskbell.shared.events import (
    AnnouncementRefused,
    BrokerFound,
    BrokerLost,
    DatabaseFound,
    DatabaseLost,
    TasksAnnounced,
)


async def test_a_broker_that_is_down_at_the_start_is_waited_for_without_marks(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    ids = make_tasks(database_url, 10)
    async with Proxy.before(vhost.url) as proxy, listening(vhost.url) as ear:
        proxy.refuse()
        async with relaying(database_url, proxy.through(vhost.url), observe):
            await observe.some(BrokerLost)
            assert unmarked(database_url, ids) == 10
            await proxy.admit()
            await ear.hears(ids)


async def test_what_waits_is_announced_anew_after_a_reconnection_once(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    ids = make_tasks(database_url, 250)
    async with (
        Proxy.before(vhost.url) as proxy,
        listening(vhost.url) as ear,
        relaying(database_url, proxy.through(vhost.url), observe),
    ):
        await ear.hears(ids)
        proxy.cut()
        await ear.hears(ids, times=2)
        await ear.hears(make_tasks(database_url))

    assert {ear.counts[task_id] for task_id in ids} == {2}
    assert len(ear.messages) == 3 + 3 + 1  # in groups again: no herd
    assert len(observe.of(BrokerLost)) == 1
    assert len(observe.of(BrokerFound)) == 2


async def test_a_broker_that_closes_its_connections_is_met_again(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    async with relaying(database_url, vhost.url, observe):
        make_tasks(database_url)
        await observe.some(TasksAnnounced)
        while not await asyncio.to_thread(vhost.close_connections):
            continue  # the management API learns late of connections
        await observe.some(BrokerLost)
        ids = make_tasks(database_url)
        async with listening(vhost.url) as ear:
            await ear.hears(ids)


async def test_many_reconnections_leave_nothing_behind(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    async with (
        Proxy.before(vhost.url) as proxy,
        listening(vhost.url) as ear,
        relaying(database_url, proxy.through(vhost.url), observe),
    ):
        await ear.hears(make_tasks(database_url))
        before = _open_files()
        for _ in range(20):
            found = asyncio.ensure_future(observe.next(BrokerFound))
            await asyncio.sleep(0)
            proxy.cut()
            await found
        await ear.hears(make_tasks(database_url))
        await proxy.wait_connections(1)
        after = _open_files()

    assert after <= before


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_network_to_the_broker_that_falls_silent_is_given_up(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    async with (
        Proxy.before(vhost.url) as proxy,
        listening(vhost.url) as ear,
        relaying(database_url, proxy.through(vhost.url), observe, deadline=0.5),
    ):
        await ear.hears(make_tasks(database_url))
        await observe.some(TasksAnnounced)  # its confirm has come, too
        proxy.silence()
        ids = make_tasks(database_url, 5)
        refused = await observe.some(AnnouncementRefused, lambda each: each.tasks == len(ids))
        await observe.some(BrokerLost)
        proxy.resume()
        await ear.hears(ids)

    assert refused.reason == Fate.UNCONFIRMED


async def test_a_lost_confirm_only_repeats_its_announcement(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    async with (
        Proxy.before(vhost.url) as proxy,
        listening(vhost.url) as ear,
        relaying(database_url, proxy.through(vhost.url), observe, deadline=1.0),
    ):
        await ear.hears(make_tasks(database_url))
        await observe.some(TasksAnnounced)  # its confirm has come, too
        proxy.silence(Direction.TO_CLIENT)
        ids = make_tasks(database_url)
        await observe.some(AnnouncementRefused)
        proxy.resume()
        await ear.hears(ids, times=2)


async def test_a_broker_that_restarts_empty_hears_everything_again(
    database_url: str, private_rabbitmq: RabbitMQ, private_vhost: Vhost, observe: Recorder
) -> None:
    ids = make_tasks(database_url, 120)
    async with relaying(database_url, private_vhost.url, observe):
        await observe.some(TasksAnnounced)
        await asyncio.to_thread(_replace, private_rabbitmq, private_vhost.name)
        late = make_tasks(database_url)
        async with listening(private_vhost.url) as ear:
            await ear.hears(ids + late)


def _replace(server: RabbitMQ, vhost: str) -> None:
    server.kill()
    server.wipe()
    server.start()
    server.create_vhost(vhost)


async def test_a_memory_alarm_takes_marks_back_and_does_not_hold_a_shutdown(
    database_url: str, private_rabbitmq: RabbitMQ, private_vhost: Vhost, observe: Recorder
) -> None:
    # The ear is a connection of its own: brokers block those that publish.
    async with listening(private_vhost.url) as ear:
        async with relaying(database_url, private_vhost.url, observe, deadline=3.0):
            await ear.hears(make_tasks(database_url))
            await observe.some(TasksAnnounced)  # its confirm has come, too
            await asyncio.to_thread(private_rabbitmq.memory_alarm, True)  # noqa: FBT003
            ids = make_tasks(database_url, 3)
            refused = await observe.some(AnnouncementRefused)
            while unmarked(database_url, ids) < 3:
                await observe.next(AnnouncementRefused)
            stopping_at = asyncio.get_running_loop().time()
        took = asyncio.get_running_loop().time() - stopping_at
        await asyncio.to_thread(private_rabbitmq.memory_alarm, False)  # noqa: FBT003
        async with relaying(database_url, private_vhost.url, observe):
            await ear.hears(ids)

    assert refused.reason == Fate.UNCONFIRMED
    assert took < 30.0  # a publish that nobody confirms would hold it for ever


async def test_a_network_to_postgres_that_falls_silent_is_given_up(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    async with Proxy.before(database_url) as proxy, listening(vhost.url) as ear:
        database = Database(proxy.through(database_url), deadline=0.5)
        async with relaying(database, vhost.url, observe):
            await ear.hears(make_tasks(database_url))
            proxy.silence()
            await observe.some(DatabaseLost, lambda e: e.purpose == "relay")
            ids = make_tasks(database_url)
            proxy.resume()
            await ear.hears(ids)
            await observe.some(DatabaseFound)


async def test_a_database_that_is_down_at_the_start_is_waited_for(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    ids = make_tasks(database_url)
    async with Proxy.before(database_url) as proxy, listening(vhost.url) as ear:
        proxy.refuse()
        async with relaying(proxy.through(database_url), vhost.url, observe):
            await observe.some(DatabaseLost, lambda e: e.purpose == "relay")
            await proxy.admit()
            await ear.hears(ids)


async def test_a_database_that_crashes_is_met_again(
    private_postgres: Postgres, private_database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    url = private_database_url
    async with listening(vhost.url) as ear, relaying(url, vhost.url, observe):
        await ear.hears(make_tasks(url))
        await asyncio.to_thread(private_postgres.restart_immediately)
        await ear.hears(make_tasks(url))


async def test_a_database_that_is_cut_while_announcements_fly_loses_none(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    async with (
        Proxy.before(database_url) as proxy,
        listening(vhost.url) as ear,
        relaying(proxy.through(database_url), vhost.url, observe, batch=10),
    ):
        ids = make_tasks(database_url, 500)
        for _ in range(3):
            await observe.next(TasksAnnounced)
            proxy.cut()
            await observe.next(DatabaseFound)
        await ear.hears(ids)
