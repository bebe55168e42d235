"""An idle relay sleeps at the bell and is quick all the same."""

import asyncio

import psycopg
import pytest

from integration.relay.ear import Recorder, listening, relaying, relaying_as
from support.factories import make_tasks
from support.rabbitmq import Vhost
from support.waiting import PATIENCE
from taskbell.producer import Producer
from taskbell.relay import Relay
from taskbell.relay.pace import Pass
from taskbell.shared import doorbell
from taskbell.shared.database import Database, conninfo
from taskbell.shared.events import DoorbellDeaf


async def test_a_sleeping_relay_wakes_when_a_producer_rings(
    database_url: str, vhost: Vhost, observe: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doorbell, "_SAFETY_SECONDS", 3600.0)  # nothing but the ring wakes it
    producer = Producer()
    async with listening(vhost.url) as ear, relaying(database_url, vhost.url, observe):
        with psycopg.connect(conninfo(database_url)) as connection:
            for _ in range(3):
                await _asleep(database_url)
                task_id = producer.enqueue(connection, "noop", {}).task_id
                connection.commit()
                await ear.hears([task_id])


async def _asleep(url: str) -> None:
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        async with asyncio.timeout(PATIENCE):
            while not connection.execute(
                "SELECT FROM taskbell.bell WHERE awake_until <= clock_timestamp()"
                " AND listen_until > clock_timestamp()"
            ).fetchall():
                await asyncio.to_thread(connection.execute, "SELECT pg_sleep(0.02)")


async def test_a_relay_that_cannot_hear_the_bell_polls(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    database = Database(database_url, behind_pooler=True)
    async with listening(vhost.url) as ear, relaying(database, vhost.url, observe):
        await observe.some(DoorbellDeaf)
        for _ in range(3):
            await ear.hears(make_tasks(database_url))


async def test_a_relay_that_ends_leaves_the_bell(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    async with relaying(database_url, vhost.url, observe):
        await _asleep(database_url)

    with psycopg.connect(conninfo(database_url)) as connection:
        assert connection.execute("SELECT FROM taskbell.bell").fetchall() == []


class _Counted(Relay):
    passes = 0

    async def run_once(self) -> Pass:
        self.passes += 1
        return await super().run_once()


async def test_an_idle_relay_hardly_asks(
    database_url: str, vhost: Vhost, observe: Recorder
) -> None:
    """About once a second, even with a window full of announced entries."""
    async with (
        listening(vhost.url) as ear,
        relaying_as(_Counted, database_url, vhost.url, observe) as relay,
    ):
        await ear.hears(make_tasks(database_url, 2000))
        await _asleep(database_url)
        before = relay.passes
        with psycopg.connect(conninfo(database_url)) as connection:
            await asyncio.to_thread(connection.execute, "SELECT pg_sleep(3)")

    assert relay.passes - before <= 10
