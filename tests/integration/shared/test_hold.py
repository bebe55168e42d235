"""On a queue on hold a partition waits until somebody dealt with the head it lost."""

import asyncio
from uuid import UUID

import pytest

from integration.shared.partitions import ENDS, end_badly, heads, line
from support.factories import make_tasks
from support.hands import Hands, session, settling
from taskbell.shared import dead_letters, queues
from taskbell.shared.audit import look, look_for_neglect
from taskbell.shared.database import DedicatedConnection
from taskbell.shared.maintenance.promote import Promoter
from taskbell.shared.statement import Statement
from taskbell.shared.statements import dead_letter, settlement
from taskbell.shared.statements import queue as statements


@pytest.fixture(autouse=True)
async def _on_hold(connection: DedicatedConnection) -> None:
    await queues.set_on_dead(connection, "default", "hold", actor="me")


@pytest.fixture
async def held(database_url: str, worker: Hands, connection: DedicatedConnection) -> list[UUID]:
    """Three tasks of a partition, the first of which failed."""
    ids = line(database_url, 3)
    await end_badly(database_url, worker, connection, ids[0], "fail")
    return ids


async def run_out(worker: Hands) -> list[UUID]:
    """Complete one after the other until nothing is due."""
    done: list[UUID] = []
    while leases := await worker.claim():
        done += await worker.complete(leases)
        await worker.promote()
    return done


@pytest.mark.parametrize("end", ENDS)
async def test_no_way_to_end_badly_lets_the_next_one_run(
    database_url: str, worker: Hands, connection: DedicatedConnection, end: str
) -> None:
    ids = line(database_url, 2, max_attempts=1)
    (another,) = line(database_url, 1, "another")

    await end_badly(database_url, worker, connection, ids[0], end)
    line(database_url, 1)

    assert await worker.promote() == 0
    assert await Promoter().run_once(worker.connection) is None
    assert heads(database_url) == [another]
    (partition,) = await queues.held(connection, "default")
    assert (partition.partition_key, partition.task_id, partition.waiting) == ("k", ids[0], 2)
    assert await look(connection) == []
    assert await look_for_neglect(connection, 0.0) == []


async def test_a_completed_head_and_tasks_without_a_key_hold_nothing(
    database_url: str, worker: Hands, connection: DedicatedConnection
) -> None:
    ids = line(database_url, 2)
    (free,) = make_tasks(database_url)
    await worker.fail(free)

    assert await run_out(worker) == ids
    assert await queues.held(connection, "default") == []


async def test_a_redriven_head_runs_before_its_successors(
    database_url: str, worker: Hands, connection: DedicatedConnection, held: list[UUID]
) -> None:
    await dead_letters.redrive_many(connection, held[:1], actor="me")

    assert heads(database_url) == held[:1]
    assert await run_out(worker) == held


async def test_a_redriven_head_that_dies_again_holds_again(
    worker: Hands, connection: DedicatedConnection, held: list[UUID]
) -> None:
    await dead_letters.redrive_many(connection, held[:1], actor="me")
    await worker.fail(held[0])

    assert await run_out(worker) == []
    assert [each.task_id for each in await queues.held(connection, "default")] == held[:1]


async def test_a_discarded_head_lets_the_next_one_run(
    database_url: str, worker: Hands, connection: DedicatedConnection, held: list[UUID]
) -> None:
    await dead_letters.discard_many(connection, held[:1], actor="me")

    assert heads(database_url) == held[1:2]
    assert await run_out(worker) == held[1:]


async def test_a_released_partition_goes_on_and_the_dead_letter_stays(
    database_url: str, worker: Hands, connection: DedicatedConnection, held: list[UUID]
) -> None:
    line(database_url, 1, "another")

    released = await queues.release(connection, "default", "k", actor="me")

    assert released == ["k"]
    assert heads(database_url) == held[1:2]
    assert await queues.release(connection, "default", "k", actor="me") == []
    assert await dead_letters.count(connection) == 1
    # Redriven later, it parks like any other; its number makes it the next.
    await dead_letters.redrive_many(connection, held[:1], actor="me")
    assert heads(database_url) == held[1:2]
    assert await worker.complete(await worker.claim()) == held[1:2]
    assert heads(database_url) == held[:1]


async def test_all_partitions_of_a_queue_are_released_at_once_and_no_others(
    database_url: str, worker: Hands, connection: DedicatedConnection
) -> None:
    await queues.set_on_dead(connection, "other", "hold", actor="me")
    for key in ("k", "l"):
        await worker.fail(line(database_url, 1, key)[0])
    elsewhere = make_tasks(database_url, partition_key="k", queue="other")[0]
    await worker.fail(elsewhere)

    assert sorted(await queues.release(connection, "default", actor="me")) == ["k", "l"]
    assert [each.task_id for each in await queues.held(connection, "other")] == [elsewhere]


async def test_going_back_to_continue_leaves_what_is_held_to_be_released(
    database_url: str, worker: Hands, connection: DedicatedConnection, held: list[UUID]
) -> None:
    assert await queues.set_on_dead(connection, "default", "continue", actor="me") == 1
    assert await worker.promote() == 0

    await queues.release(connection, "default", "k", actor="me")
    await end_badly(database_url, worker, connection, held[1], "fail")

    assert heads(database_url) == held[2:]


@pytest.mark.parametrize("first", ["redrive", "release"])
@pytest.mark.parametrize("ends", ["commit", "rollback"])
async def test_redriving_and_releasing_at_once_make_one_head(
    database_url: str, worker: Hands, connection: DedicatedConnection, held: list[UUID],
    first: str, ends: str,
) -> None:  # fmt: skip
    steps: dict[str, tuple[Statement, dict[str, object]]] = {
        "redrive": (dead_letter.REDRIVE, {"task_ids": held[:1], "delays": [0.0], "actor": "me"}),
        "release": (
            statements.RELEASE, {"queue": "default", "partition_key": "k", "actor": "me"}
        ),
    }  # fmt: skip
    second = "release" if first == "redrive" else "redrive"
    async with session(database_url) as holder, session(database_url) as waiter:
        await holder.run(steps[first][0], **steps[first][1])
        waiting = asyncio.create_task(waiter.run(steps[second][0], **steps[second][1]))
        await waiter.is_waiting()
        await (holder.commit() if ends == "commit" else holder.rollback())
        await waiting
        await waiter.commit()

    redriven_first = (first if ends == "commit" else second) == "redrive"
    assert heads(database_url) == (held[:1] if redriven_first else held[1:2])
    assert await worker.promote() == 0
    assert await look(connection) == []
    # Who waited for the hold did its own part all the same: both letters' tasks live.
    assert len(await run_out(worker)) == (3 if ends == "commit" or redriven_first else 2)


async def test_a_promoter_that_looked_before_the_head_died_promotes_nothing(
    database_url: str, worker: Hands, connection: DedicatedConnection
) -> None:
    ids = line(database_url, 2)
    await worker.promote()
    (lease,) = await worker.claim()
    async with session(database_url) as holder:
        await holder.run(
            settlement.SETTLE, **settling("w", ids[0], lease.attempt, "fail")
        )  # uncommitted: the promoter sees the lease
        assert await worker.promote() == 0
        await holder.commit()

    assert await worker.promote() == 0
    assert heads(database_url) == []
    assert await look(connection) == []
