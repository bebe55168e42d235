"""Admission, through every kind of connection: a full queue and an owner over its rate."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from integration.producer.desks import Desk, Rows, enqueue, open_desk
from taskbell.producer import Enqueued, NewTask, QueueFull, RateLimited, batch, new_task_id
from taskbell.producer.ask import ask_for
from taskbell.producer.connection import run
from taskbell.producer.gate import Gate
from taskbell.producer.submission import admitted, submission_of_many
from taskbell.producer.terms import Terms
from taskbell.shared.database import conninfo

Committed = Callable[[str], Rows]
Observer = psycopg.Connection[Any]
COUNTS = """
SELECT (SELECT count(*) FROM taskbell.task), (SELECT count(*) FROM taskbell.outbox),
       (SELECT count(*) FROM taskbell.idempotency)
"""
TOKENS = "SELECT name, round(CAST(tokens AS numeric), 3) FROM taskbell.rate_limit ORDER BY name"
# Slow enough that no test lives to see a token come.
CRAWL = 1e-9


@pytest.fixture
async def desk(kind: str, database_url: str) -> AsyncIterator[Desk]:
    """A desk whose producer asks for admission."""
    async with open_desk(kind, database_url, admission=True) as opened:
        yield opened


def fill(observer: Observer, queue: str, *, depth: int | None = 19, max_depth: int = 10) -> None:
    observer.execute(
        "INSERT INTO taskbell.queue (name, depth, max_depth, drain_rate) VALUES (%s, %s, %s, 1)"
        " ON CONFLICT (name) DO UPDATE SET depth = EXCLUDED.depth, max_depth = EXCLUDED.max_depth",
        [queue, depth, max_depth],
    )


def limit(observer: Observer, owner: str, tokens: float, *, burst: float = 100) -> None:
    observer.execute(
        "INSERT INTO taskbell.rate_limit (scope, name, rate, burst, tokens)"
        " VALUES ('owner', %s, %s, %s, %s)",
        [owner, CRAWL, burst, tokens],
    )


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("many", [False, True])
async def test_a_full_queue_refuses_writes_nothing_and_leaves_the_transaction_usable(
    desk: Desk, observer: Observer, committed: Committed, key: str | None, *, many: bool
) -> None:
    fill(observer, "full")

    with pytest.raises(QueueFull) as refused:
        await enqueue(desk, NewTask("t", queue="full", idempotency_key=key), many=many)
    await enqueue(desk, NewTask("t", queue="other", idempotency_key=key), many=many)
    await desk.commit()

    assert refused.value.queue == "full"
    assert 10.0 <= refused.value.retry_after <= 12.0
    assert committed("SELECT queue FROM taskbell.task") == [("other",)]
    assert committed(COUNTS) == [(1, 1, 1 if key else 0)]


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("many", [False, True])
async def test_an_owner_over_its_rate_is_refused_and_others_are_not(
    desk: Desk, observer: Observer, committed: Committed, key: str | None, *, many: bool
) -> None:
    limit(observer, "hasty", 1.5)
    limit(observer, "calm", 1.5)

    requests = [
        NewTask("t", owner_id="hasty", idempotency_key=key and f"{key}{place}")
        for place in range(2)
    ]
    await enqueue(desk, requests[0], many=many)
    with pytest.raises(RateLimited) as refused:
        await enqueue(desk, requests[1], many=many)
    for owner in ("calm", "free", ""):
        await enqueue(desk, NewTask("t", owner_id=owner, idempotency_key=key), many=many)
    await desk.commit()

    assert (refused.value.scope, refused.value.name) == ("owner", "hasty")
    assert refused.value.retry_after == 3600.0
    assert committed(COUNTS) == [(4, 4, 4 if key else 0)]
    assert committed(TOKENS) == [("calm", 0.5), ("hasty", 0.5)]


async def test_an_owner_with_a_limit_of_its_own_may_be_the_one_of_those_without(
    desk: Desk, observer: Observer
) -> None:
    limit(observer, "", 1)

    await desk.enqueue("t")
    with pytest.raises(RateLimited, match="''"):
        await desk.enqueue("t")


@pytest.mark.parametrize("many", [False, True])
async def test_a_known_key_is_answered_although_the_queue_is_full_and_costs_no_token(
    desk: Desk, observer: Observer, committed: Committed, *, many: bool
) -> None:
    limit(observer, "o", 1)
    request = NewTask("t", 1, queue="q", owner_id="o", idempotency_key="k")
    first = await enqueue(desk, request, many=many)
    await desk.commit()
    fill(observer, "q")
    before = committed("SELECT tokens, refilled_at FROM taskbell.rate_limit")

    again = await enqueue(desk, request, many=many)
    await desk.commit()

    assert again == Enqueued(first.task_id, created=False)
    with pytest.raises(QueueFull):
        await enqueue(desk, NewTask("t", queue="q", owner_id="o"), many=many)
    assert committed("SELECT tokens, refilled_at FROM taskbell.rate_limit") == before
    assert committed(TOKENS) == [("o", 0)]


@pytest.mark.parametrize("key", [None, "other"])
@pytest.mark.parametrize("many", [False, True])
async def test_an_id_that_is_taken_is_answered_although_the_queue_is_full_and_costs_no_token(
    desk: Desk, observer: Observer, committed: Committed, key: str | None, *, many: bool
) -> None:
    limit(observer, "o", 1)
    request = NewTask("t", queue="q", owner_id="o", task_id=new_task_id())
    await enqueue(desk, request, many=many)
    await desk.commit()
    fill(observer, "q")

    again = await enqueue(desk, NewTask.of(request, idempotency_key=key), many=many)
    await desk.commit()

    assert (again.task_id, again.created) == (request.task_id, False)
    assert committed(TOKENS) == [("o", 0)]


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_batch_with_one_full_queue_writes_none(
    desk: Desk, observer: Observer, committed: Committed, key: str | None
) -> None:
    limit(observer, "o", 10)
    fill(observer, "full")
    tasks = [
        NewTask("t", queue=queue, owner_id="o", idempotency_key=key and f"{key}{place}")
        for place, queue in enumerate(("one", "full", "two"))
    ]

    with pytest.raises(QueueFull, match="'full'"):
        await desk.enqueue_many(tasks)
    await desk.commit()

    assert committed(COUNTS) == [(0, 0, 0)]
    assert committed(TOKENS) == [("o", 10)]


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_batch_takes_a_token_for_each_new_task_of_each_owner_or_writes_none(
    desk: Desk, observer: Observer, committed: Committed, key: str | None
) -> None:
    odd = "o\"\\,{}' NULL é"
    limit(observer, odd, 3)
    limit(observer, "NULL", 1)
    known = NewTask("t", "known", owner_id=odd, idempotency_key="known")
    await desk.enqueue(known)
    await desk.commit()
    same = new_task_id()
    tasks = [
        known,
        NewTask("t", 1, owner_id=odd, idempotency_key=key and f"{key}1"),
        NewTask("t", 2, owner_id=odd, task_id=same, idempotency_key=key and f"{key}2"),
        NewTask("t", 2, owner_id=odd, task_id=same, idempotency_key=key and f"{key}2"),
        NewTask("t", 3, owner_id="NULL"),
        NewTask("t", 4, owner_id="free"),
    ]

    with pytest.raises(RateLimited) as refused:
        await desk.enqueue_many([*tasks, NewTask("t", owner_id="NULL")])
    await desk.commit()
    before = committed(COUNTS)
    answers = await desk.enqueue_many(tasks)
    await desk.commit()

    assert refused.value.name == "NULL"
    assert before == [(1, 1, 1)]
    assert [answer.created for answer in answers] == [False, True, True, False, True, True]
    assert sorted(committed(TOKENS)) == [("NULL", 0), (odd, 0)]


@pytest.mark.parametrize("many", [False, True])
async def test_owners_with_a_rate_and_without_are_told_apart(
    database_url: str, observer: Observer, *, many: bool
) -> None:
    limit(observer, "rated", 10)
    terms = Terms("", ring=True, payload_limit=1000, gate=Gate.QUEUE_AND_RATE)
    asks = [
        ask_for(NewTask("t", owner_id=owner, idempotency_key=key), terms, datetime.now(UTC))
        for owner in ("free", "rated", "")
        for key in (None, "k")
    ]

    with psycopg.connect(conninfo(database_url)) as connection:
        for group in [asks] if many else [[ask] for ask in asks]:
            submission = submission_of_many(group, terms, None)
            asked = [(ask.owner_id, ask.queue) for ask in group]
            admitted(run(connection, submission), asked, terms)

    assert terms.seen.left(Gate.QUEUE_AND_RATE, ["free", ""], []) is Gate.OPEN
    assert terms.seen.left(Gate.QUEUE_AND_RATE, ["rated"], []) is Gate.QUEUE_AND_RATE


async def test_of_a_batch_in_several_statements_those_before_the_refused_one_are_written(
    desk: Desk, observer: Observer, committed: Committed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "CHUNK_TASKS", 2)
    limit(observer, "o", 3)

    with pytest.raises(RateLimited):
        await desk.enqueue_many([NewTask("t", owner_id="o") for _ in range(5)])
    await desk.commit()

    assert committed("SELECT count(*) FROM taskbell.task") == [(2,)]
    assert committed(TOKENS) == [("o", 1)]


@pytest.mark.parametrize("many", [False, True])
async def test_what_is_rolled_back_gives_its_token_back(
    desk: Desk, observer: Observer, committed: Committed, *, many: bool
) -> None:
    limit(observer, "o", 1)
    await desk.run("SAVEPOINT before")
    await enqueue(desk, NewTask("t", owner_id="o"), many=many)
    await desk.run("ROLLBACK TO SAVEPOINT before")

    again = await enqueue(desk, NewTask("t", owner_id="o"), many=many)
    await desk.commit()

    assert again.created
    assert committed(TOKENS) == [("o", 0)]


@pytest.mark.parametrize("many", [False, True])
async def test_a_queue_that_may_hold_none_is_full_before_it_was_ever_measured(
    desk: Desk, observer: Observer, *, many: bool
) -> None:
    fill(observer, "closed", depth=None, max_depth=0)
    fill(observer, "unmeasured", depth=None, max_depth=1)
    fill(observer, "roomy", depth=9)

    with pytest.raises(QueueFull):
        await enqueue(desk, NewTask("t", queue="closed"), many=many)
    for queue in ("unmeasured", "roomy"):
        assert (await enqueue(desk, NewTask("t", queue=queue), many=many)).created


@pytest.mark.parametrize("many", [False, True])
async def test_who_asks_for_the_queue_alone_leaves_rates_to_others(
    kind: str, database_url: str, observer: Observer, committed: Committed, *, many: bool
) -> None:
    limit(observer, "o", 0)
    fill(observer, "full")
    async with open_desk(kind, database_url, admission=Gate.QUEUE) as desk:
        await enqueue(desk, NewTask("t", owner_id="o"), many=many)
        with pytest.raises(QueueFull):
            await enqueue(desk, NewTask("t", queue="full", idempotency_key="k"), many=many)
        await desk.commit()

    assert committed(COUNTS) == [(1, 1, 0)]
    assert committed(TOKENS) == [("o", 0)]


@pytest.mark.parametrize("many", [False, True])
async def test_whoever_does_not_ask_is_not_refused(
    kind: str, database_url: str, observer: Observer, *, many: bool
) -> None:
    limit(observer, "", 0)
    fill(observer, "full")

    async with open_desk(kind, database_url) as desk:
        assert (await enqueue(desk, NewTask("t", queue="full"), many=many)).created
