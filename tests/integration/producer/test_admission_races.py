"""Two callers and one token, on real connections, in both orders; and callers with habits."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy.engine import make_url

from integration.producer.desks import Desk, Rows, enqueue, open_desk
from integration.producer.test_races import pid_of, until_waiting
from services import Pooler
from taskbell.producer import AsyncProducer, NewTask, Producer, QueueFull, RateLimited
from taskbell.shared.database import conninfo

Committed = Callable[[str], Rows]
IN_IT = "SELECT round(CAST(tokens AS numeric), 3) FROM taskbell.rate_limit"
A_BUCKET_OF_ONE = """
INSERT INTO taskbell.rate_limit (scope, name, rate, burst, tokens)
VALUES ('owner', 'o', 1e-9, 10, 1)
"""


@pytest.fixture(params=["psycopg", "async_session"])
def kind(request: pytest.FixtureRequest) -> str:
    """A race is decided by Postgres: a kind of each colour will do."""
    return str(request.param)


@pytest.fixture
async def desks(kind: str, database_url: str) -> AsyncGenerator[tuple[Desk, Desk]]:
    async with (
        open_desk(kind, database_url, owner_id="o", admission=True) as one,
        open_desk(kind, database_url, owner_id="o", admission=True) as other,
    ):
        yield one, other


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("key", [None, "k"])
async def test_two_transactions_cannot_spend_one_token(
    desks: tuple[Desk, Desk],
    observer: psycopg.Connection[Any],
    committed: Committed,
    first: int,
    key: str | None,
    *,
    many: bool,
) -> None:
    observer.execute(A_BUCKET_OF_ONE)
    holder, waiter = desks[first], desks[1 - first]
    pid = await pid_of(waiter)
    await enqueue(holder, NewTask("t", idempotency_key=key), many=many)

    request = NewTask("t", idempotency_key=key and "other")
    waiting = asyncio.create_task(enqueue(waiter, request, many=many))
    await until_waiting(observer, pid)
    await holder.commit()

    with pytest.raises(RateLimited):
        await waiting
    await waiter.commit()
    assert committed("SELECT count(*) FROM taskbell.task") == [(1,)]
    assert committed(IN_IT) == [(0,)]


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("many", [False, True])
async def test_the_token_of_whoever_rolls_back_goes_to_who_waits(
    desks: tuple[Desk, Desk],
    observer: psycopg.Connection[Any],
    committed: Committed,
    first: int,
    *,
    many: bool,
) -> None:
    observer.execute(A_BUCKET_OF_ONE)
    holder, waiter = desks[first], desks[1 - first]
    pid = await pid_of(waiter)
    await enqueue(holder, NewTask("t"), many=many)

    waiting = asyncio.create_task(enqueue(waiter, NewTask("t"), many=many))
    await until_waiting(observer, pid)
    await holder.rollback()

    assert (await waiting).created
    await waiter.commit()
    assert committed(IN_IT) == [(0,)]


async def test_a_bucket_that_changed_after_the_snapshot_of_a_repeatable_read_is_a_40001(
    desks: tuple[Desk, Desk], observer: psycopg.Connection[Any]
) -> None:
    observer.execute(A_BUCKET_OF_ONE)
    reader, writer = desks
    await reader.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    await reader.query("SELECT count(*) FROM taskbell.task")
    await writer.enqueue("t")
    await writer.commit()

    with pytest.raises(Exception, match="could not serialize access"):
        await reader.enqueue("t")


async def test_fifty_who_come_at_once_spend_ten_tokens_ten_times(
    database_url: str, observer: psycopg.Connection[Any], committed: Committed
) -> None:
    observer.execute(A_BUCKET_OF_ONE)
    observer.execute("UPDATE taskbell.rate_limit SET tokens = 10")
    producer = AsyncProducer(owner_id="o", admission=True)

    async def enqueue_once() -> bool:
        async with await psycopg.AsyncConnection.connect(conninfo(database_url)) as connection:
            try:
                return (await producer.enqueue(connection, "t")).created
            except RateLimited:
                return False

    answers = await asyncio.gather(*(enqueue_once() for _ in range(50)))

    assert sum(answers) == 10
    assert committed("SELECT count(*) FROM taskbell.task") == [(10,)]


async def test_overlapping_batches_of_many_owners_in_opposite_order_do_not_deadlock(
    database_url: str, observer: psycopg.Connection[Any]
) -> None:
    observer.execute("""
        INSERT INTO taskbell.rate_limit (scope, name, rate, burst, tokens)
        SELECT 'owner', owner, 1e9, 1e9, 1e9 FROM unnest(ARRAY['a', 'B', 'é', 'c']) AS owner
    """)
    producer = AsyncProducer(admission=True)
    tasks = [NewTask("t", owner_id=owner) for owner in ("a", "B", "é", "c")]

    async def enqueue_all(batch: list[NewTask]) -> None:
        async with await psycopg.AsyncConnection.connect(conninfo(database_url)) as connection:
            for _ in range(30):
                await producer.enqueue_many(connection, batch)
                await connection.commit()

    await asyncio.gather(enqueue_all(tasks), enqueue_all(tasks[::-1]))


@pytest.mark.parametrize("habits", [{"autocommit": True}, {"prepare_threshold": 0}])
def test_admission_holds_whatever_the_connections_habits(
    database_url: str, observer: psycopg.Connection[Any], habits: dict[str, Any]
) -> None:
    observer.execute(A_BUCKET_OF_ONE)
    observer.execute("UPDATE taskbell.rate_limit SET tokens = 3")
    producer = Producer(owner_id="o", admission=True)

    with psycopg.connect(conninfo(database_url), **habits) as connection:
        for _ in range(3):
            assert producer.enqueue(connection, "t").created
        for _ in range(3):
            with pytest.raises(RateLimited):
                producer.enqueue(connection, "t")
            with pytest.raises(RateLimited):
                producer.enqueue_many(connection, [NewTask("t", idempotency_key="k")])


def test_admission_holds_behind_a_pooler(
    database_url: str, observer: psycopg.Connection[Any], committed: Committed
) -> None:
    observer.execute("INSERT INTO taskbell.queue (name, max_depth) VALUES ('closed', 0)")
    producer = Producer(admission=True)
    with Pooler(database_url) as pooler:
        url = pooler.url_of(make_url(database_url).database or "")
        with psycopg.connect(conninfo(url), prepare_threshold=None) as connection:
            for _ in range(3):
                with pytest.raises(QueueFull):
                    producer.enqueue(connection, "t", queue="closed")
                assert producer.enqueue(connection, "t").created
                connection.commit()

    assert committed("SELECT count(*) FROM taskbell.task") == [(3,)]
