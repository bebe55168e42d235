"""Operators pause and resume queues, see them, and leave a trace."""

from integration.shared.sleeper import woken
from support.factories import make_tasks
from support.hands import Hands
from support.workers import rows
from taskbell.shared import queues
from taskbell.shared.database import DedicatedConnection
from taskbell.shared.maintenance.measure import Measure


async def test_a_paused_queue_is_claimed_again_once_it_is_resumed(
    database_url: str, worker: Hands, connection: DedicatedConnection
) -> None:
    make_tasks(database_url, 2)

    assert await queues.pause(connection, "default", actor="me") is None
    assert await worker.claim() == []
    assert await queues.resume(connection, "default", actor="me")
    assert len(await worker.claim()) == 2
    assert not await queues.resume(connection, "default", actor="me")


async def test_a_pause_for_some_time_ends_by_itself(
    database_url: str, worker: Hands, connection: DedicatedConnection
) -> None:
    make_tasks(database_url)
    until = await queues.pause(connection, "default", actor="me", seconds=3600)

    (paused,) = await queues.list_many(connection)
    taken = await worker.claim()
    rows(database_url, "UPDATE taskbell.queue SET paused_until = clock_timestamp()")

    assert (paused.paused, paused.paused_until, taken) == (True, until, [])
    assert [queue.paused for queue in await queues.list_many(connection)] == [False]
    assert len(await worker.claim()) == 1


async def test_resuming_rings_whoever_sleeps(
    database_url: str, connection: DedicatedConnection
) -> None:
    await queues.pause(connection, "default", actor="me")
    with woken(database_url):
        await queues.resume(connection, "default", actor="me")


async def test_the_overview_tells_what_was_decided_measured_and_is_so_now(
    database_url: str, worker: Hands, connection: DedicatedConnection
) -> None:
    make_tasks(database_url, 3)
    await worker.claim(limit=1)
    await queues.set_on_dead(connection, "held", "hold", actor="me")
    await worker.fail(make_tasks(database_url, partition_key="k", queue="held")[0])
    await Measure().run_once(connection)

    default, held = await queues.list_many(connection)

    assert (default.queue, default.depth, default.running, default.held) == ("default", 2, 1, 0)
    assert (held.queue, held.on_dead, held.depth, held.held) == ("held", "hold", 0, 1)


async def test_every_decision_is_in_the_audit_log(
    database_url: str, connection: DedicatedConnection
) -> None:
    await queues.pause(connection, "q", actor="ann")
    await queues.resume(connection, "q", actor="bob")
    await queues.resume(connection, "q", actor="bob")
    await queues.set_on_dead(connection, "q", "hold", actor="ann")

    log = rows(
        database_url, "SELECT actor, action, subject, detail FROM taskbell.audit_log ORDER BY id"
    )

    assert log == [
        ("ann", "pause", "q", {"until": None}),
        ("bob", "resume", "q", {}),
        ("ann", "set", "q", {"on_dead": "hold"}),
    ]
