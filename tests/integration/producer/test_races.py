"""Two callers at the same moment, on real connections, in both orders."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from typing import Any

import psycopg
import pytest

from integration.producer.desks import Desk, Rows, enqueue, open_desk
from taskbell.producer import AsyncProducer, Enqueued, IdempotencyConflict, NewTask, batch
from taskbell.shared.database import conninfo

Committed = Callable[[str], Rows]


@pytest.fixture
async def desks(kind: str, database_url: str) -> AsyncGenerator[tuple[Desk, Desk]]:
    async with open_desk(kind, database_url) as one, open_desk(kind, database_url) as other:
        yield one, other


async def pid_of(desk: Desk) -> int:
    ((pid,),) = await desk.query("SELECT pg_backend_pid()")
    return int(pid)


async def until_waiting(observer: psycopg.Connection[Any], pid: int) -> None:
    """Returns once that backend waits for a lock of another."""
    while observer.execute("SELECT pg_blocking_pids(%s) = '{}'", [pid]).fetchone() == (True,):
        await asyncio.to_thread(observer.execute, "SELECT 1")


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("many", [False, True])
async def test_whoever_waits_for_a_new_key_gets_the_task_that_was_committed(
    desks: tuple[Desk, Desk], observer: psycopg.Connection[Any], first: int, *, many: bool
) -> None:
    holder, waiter = desks[first], desks[1 - first]
    pid = await pid_of(waiter)
    created = await holder.enqueue("t", 1, idempotency_key="k")

    waiting = asyncio.create_task(enqueue(waiter, NewTask("t", 1, idempotency_key="k"), many=many))
    await until_waiting(observer, pid)
    await holder.commit()

    assert await waiting == Enqueued(created.task_id, created=False)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("many", [False, True])
async def test_whoever_waits_for_a_new_key_creates_when_the_other_rolls_back(
    desks: tuple[Desk, Desk],
    observer: psycopg.Connection[Any],
    committed: Committed,
    first: int,
    *,
    many: bool,
) -> None:
    holder, waiter = desks[first], desks[1 - first]
    pid = await pid_of(waiter)
    await holder.enqueue("t", 1, idempotency_key="k")

    waiting = asyncio.create_task(enqueue(waiter, NewTask("t", 2, idempotency_key="k"), many=many))
    await until_waiting(observer, pid)
    await holder.rollback()
    enqueued = await waiting
    await waiter.commit()

    assert enqueued.created
    assert committed("SELECT id, payload FROM taskbell.task") == [(enqueued.task_id, 2)]


async def test_whoever_waits_with_another_request_is_told_and_not_harmed(
    desks: tuple[Desk, Desk], observer: psycopg.Connection[Any]
) -> None:
    holder, waiter = desks
    pid = await pid_of(waiter)
    await holder.enqueue("t", 1, idempotency_key="k")

    waiting = asyncio.create_task(waiter.enqueue("t", 2, idempotency_key="k"))
    await until_waiting(observer, pid)
    await holder.commit()

    with pytest.raises(IdempotencyConflict):
        await waiting
    assert await waiter.query("SELECT 1") == [(1,)]


async def test_two_first_tasks_of_a_partition_both_start_parked(
    desks: tuple[Desk, Desk], committed: Committed
) -> None:
    for desk in desks:
        await desk.enqueue("t", partition_key="p")
    for desk in desks:
        await desk.commit()

    assert committed("SELECT parked FROM taskbell.outbox") == [(True,), (True,)]


async def test_a_key_first_used_after_the_snapshot_of_a_repeatable_read_is_a_40001(
    desks: tuple[Desk, Desk],
) -> None:
    reader, writer = desks
    await reader.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    await reader.query("SELECT count(*) FROM taskbell.task")
    await writer.enqueue("t", idempotency_key="k")
    await writer.commit()

    with pytest.raises(Exception, match="could not serialize access"):
        await reader.enqueue("t", idempotency_key="k")


async def test_fifty_parallel_first_uses_give_one_task_and_fifty_equal_answers(
    database_url: str, committed: Committed
) -> None:
    start = asyncio.Barrier(50)

    async def enqueue_once() -> Enqueued:
        async with await psycopg.AsyncConnection.connect(conninfo(database_url)) as connection:
            await start.wait()
            return await AsyncProducer().enqueue(connection, "t", 1, idempotency_key="k")

    answers = await asyncio.gather(*(enqueue_once() for _ in range(50)))

    assert len({answer.task_id for answer in answers}) == 1
    assert sum(answer.created for answer in answers) == 1
    assert committed("SELECT id FROM taskbell.task") == [(answers[0].task_id,)]


@pytest.mark.parametrize("chunk", [batch.CHUNK_TASKS, 5])
async def test_overlapping_batches_in_opposite_order_do_not_deadlock(
    database_url: str, committed: Committed, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(batch, "CHUNK_TASKS", chunk)
    async with AsyncExitStack() as stack:
        one, other = [
            await stack.enter_async_context(open_desk("async_psycopg", database_url))
            for _ in range(2)
        ]
        for turn in range(20):
            tasks = [
                NewTask("t", idempotency_key=f"{turn}/{n}", owner_id=owner)
                for n in range(12)
                for owner in ("a", "B", "é")
            ]
            answers, reverse = await asyncio.gather(
                enqueue_and_commit(one, tasks), enqueue_and_commit(other, tasks[::-1])
            )
            assert [a.task_id for a in answers] == [a.task_id for a in reversed(reverse)]

    assert committed("SELECT count(*) FROM taskbell.task") == [(20 * 36,)]


async def enqueue_and_commit(desk: Desk, tasks: list[NewTask]) -> list[Enqueued]:
    answers = await desk.enqueue_many(tasks)
    await desk.commit()
    return answers
