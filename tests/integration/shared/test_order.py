"""Tasks of one partition run one at a time and in order, whatever overlaps with what."""

import asyncio
from uuid import UUID

import pytest

from integration.shared.partitions import ENDS, end_badly, heads, line
from support.factories import make_tasks
from support.hands import ENQUEUE, Hands, Session, claiming, hands, session
from support.waiting import PATIENCE
from support.workers import rows
from taskbell.shared import tasks
from taskbell.shared.database import DedicatedConnection
from taskbell.shared.ids import new_task_id
from taskbell.shared.maintenance.promote import Promoter
from taskbell.shared.statement import Statement
from taskbell.shared.statements import claim, partition


async def enqueue(producer: Session, key: str = "k") -> UUID:
    """Enqueue one task of the partition in a transaction that stays open."""
    task_id = new_task_id()
    await producer.run(ENQUEUE, queue="default", key=key, ids=[task_id], priorities=[5])
    return task_id


@pytest.mark.parametrize("first", [0, 1], ids=["in order", "the later one first"])
async def test_two_first_tasks_of_a_key_make_one_head(
    database_url: str, worker: Hands, first: int
) -> None:
    async with session(database_url) as one, session(database_url) as other:
        ids = [await enqueue(one), await enqueue(other)]
        assert await worker.promote() == 0
        await (one, other)[first].commit()
        assert await worker.promote() == 1
        await (one, other)[1 - first].commit()

        promoted = await worker.promote()

    assert promoted == 0
    assert heads(database_url) == [ids[first]]
    assert await worker.complete(await worker.claim()) == [ids[first]]
    assert heads(database_url) == [ids[1 - first]]


async def test_two_promoters_at_once_make_one_head(database_url: str, worker: Hands) -> None:
    ids = line(database_url, 2)
    async with session(database_url) as other:
        await other.run(partition.LOCK)
        assert [row.task_id for row in await other.run(partition.PROMOTE, batch=10)] == ids[:1]
        assert await worker.promote() == 0
        await other.commit()

    assert await worker.promote() == 0
    assert heads(database_url) == ids[:1]


async def test_a_task_committed_after_its_partition_fell_vacant_is_promoted(
    database_url: str, worker: Hands
) -> None:
    line(database_url, 1)
    await worker.promote()
    leases = await worker.claim()
    async with session(database_url) as producer:
        late = await enqueue(producer)
        await worker.complete(leases)
        await producer.commit()
    assert heads(database_url) == []

    assert await Promoter().run_once(worker.connection) is not None

    assert heads(database_url) == [late]


async def test_a_task_committed_while_the_head_runs_is_handed_the_partition(
    database_url: str, worker: Hands
) -> None:
    line(database_url, 1)
    await worker.promote()
    leases = await worker.claim()
    async with session(database_url) as producer:
        late = await enqueue(producer)
        await producer.commit()
    assert await worker.promote() == 0

    await worker.complete(leases)

    assert heads(database_url) == [late]


async def test_the_sweep_promotes_what_a_race_left_parked(database_url: str, worker: Hands) -> None:
    ids = line(database_url, 2)
    await worker.promote()
    leases = await worker.claim()
    async with session(database_url) as reader:
        await reader.run(
            Statement("SELECT task_id FROM taskbell.outbox WHERE task_id = :id FOR UPDATE"),
            id=ids[1],
        )
        await worker.complete(leases)
        assert await worker.promote() == 0
        await reader.rollback()
    assert heads(database_url) == []

    assert await worker.promote() == 1

    assert heads(database_url) == ids[1:]


async def test_a_head_blocks_its_partition_while_it_retries_and_no_other(
    database_url: str, worker: Hands
) -> None:
    ids = line(database_url, 2)
    (free,) = line(database_url, 1, "another")
    await worker.promote()
    (lease,) = await worker.claim_ids(ids[:1])
    await worker.settle(ids[0], lease.attempt, "retry", delay=3600)
    await worker.promote()

    taken = await worker.claim()

    assert [row.task_id for row in taken] == [free]
    rows(database_url, "UPDATE taskbell.outbox SET publish_at = clock_timestamp() WHERE NOT parked")
    (again,) = await worker.claim()
    assert again.task_id == ids[0]
    await worker.complete([again])
    assert heads(database_url) == ids[1:]


async def test_a_head_due_later_blocks_its_partition_until_then(
    database_url: str, worker: Hands
) -> None:
    (later,) = make_tasks(database_url, partition_key="k", delay=3600)
    line(database_url, 1)

    await worker.promote()

    assert heads(database_url) == [later]
    assert await worker.claim() == []


@pytest.mark.parametrize("end", ENDS)
async def test_a_head_that_ends_badly_frees_its_partition_at_once(
    database_url: str, worker: Hands, connection: DedicatedConnection, end: str
) -> None:
    ids = line(database_url, 2, max_attempts=1)

    await end_badly(database_url, worker, connection, ids[0], end)

    assert heads(database_url) == ids[1:]
    assert rows(database_url, "SELECT queue FROM taskbell.held_partition") == []


async def test_cancelling_head_and_heir_together_hands_over_to_the_one_after(
    database_url: str, worker: Hands, connection: DedicatedConnection
) -> None:
    ids = line(database_url, 3)
    await worker.promote()

    await tasks.cancel_many(connection, ids[:2], actor="me")

    assert heads(database_url) == ids[2:]


async def test_a_parked_task_that_is_cancelled_changes_nothing_for_the_head(
    database_url: str, worker: Hands, connection: DedicatedConnection
) -> None:
    ids = line(database_url, 3)
    await worker.promote()

    await tasks.cancel_many(connection, ids[1:2], actor="me")

    assert heads(database_url) == ids[:1]


async def test_overlapping_claims_never_take_two_of_one_partition(
    database_url: str, worker: Hands
) -> None:
    ids = line(database_url, 2)
    (another,) = line(database_url, 1, "another")
    await worker.promote()
    async with session(database_url) as first:
        taken = await first.run(claim.BY_QUEUE, **claiming("x", limit=1))
        assert [row.task_id for row in taken] == ids[:1]

        # Not the second of the same partition, and not nothing either.
        assert [row.task_id for row in await worker.claim()] == [another]
        assert await worker.claim_ids(ids) == []
        await first.commit()

    assert await worker.claim_ids(ids) == []


async def test_twelve_claimers_of_one_partition_run_it_in_order_and_without_an_error(
    database_url: str,
) -> None:
    ids = make_tasks(database_url, 60, partition_key="k")
    order = rows(database_url, "SELECT id FROM taskbell.task ORDER BY partition_seq")
    completed: list[UUID] = []
    all_done = asyncio.Event()

    async def work(name: str) -> None:
        async with hands(database_url, name) as ours:
            await ours.promote()
            while not all_done.is_set():
                leases = await ours.claim(limit=3)
                assert len(leases) <= 1
                completed.extend(lease.task_id for lease in leases)
                await ours.complete(leases)
                if len(completed) == len(ids):
                    all_done.set()

    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as background:
        for n in range(12):
            background.create_task(work(f"w{n}"))

    assert completed == [row.id for row in order]
