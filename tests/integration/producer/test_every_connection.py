"""One suite for every kind of connection: the caller's transaction decides."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from opentelemetry import trace

from integration.producer.desks import Desk, Rows, open_desk
from taskbell.producer import (
    Enqueued,
    IdempotencyConflict,
    InvalidTask,
    NewTask,
    TypedTask,
    batch,
    new_task_id,
)

Committed = Callable[[str], Rows]
COUNTS = """
SELECT (SELECT count(*) FROM taskbell.task), (SELECT count(*) FROM taskbell.outbox),
       (SELECT count(*) FROM taskbell.idempotency)
"""


class SendReceipt(TypedTask, type="send_receipt", queue="mail", max_attempts=8, priority=7):
    order_id: int


async def test_a_task_is_there_for_others_once_the_caller_commits(
    desk: Desk, committed: Committed
) -> None:
    enqueued = await desk.enqueue("send_receipt", {"order_id": 17}, idempotency_key="k")
    before = committed(COUNTS)
    await desk.commit()

    assert before == [(0, 0, 0)]
    assert committed(COUNTS) == [(1, 1, 1)]
    assert committed("SELECT id, status FROM taskbell.task") == [(enqueued.task_id, "PENDING")]


async def test_a_transaction_that_rolls_back_leaves_nothing(
    desk: Desk, committed: Committed
) -> None:
    await desk.enqueue("t", idempotency_key="k")
    await desk.enqueue_many([NewTask("t"), NewTask("t", idempotency_key="l")])
    await desk.rollback()

    assert committed(COUNTS) == [(0, 0, 0)]


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("many", [False, True])
async def test_every_option_arrives(
    desk: Desk, committed: Committed, key: str | None, *, many: bool
) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    nothing_yet = (None, None, None, "PENDING", 0)
    request = NewTask(
        "send_receipt",
        {"lines": [1, 2.5, None, True, "ü % :name %(x)s"], "a": {}},
        queue="mail",
        priority=7,
        max_attempts=8,
        owner_id="shop",
        correlation_id="order-17",
        idempotency_key=key,
        scheduled_at=soon,
        task_id=new_task_id(),
    )

    (enqueued,) = await desk.enqueue_many([request]) if many else [await desk.enqueue(request)]
    await desk.commit()

    assert (enqueued.task_id, enqueued.created) == (request.task_id, True)
    assert committed("""
        SELECT type, payload, queue, priority, max_attempts, owner_id, correlation_id, scheduled_at,
               traceparent, partition_key, partition_seq, status, attempt_count FROM taskbell.task
    """) == [
        ("send_receipt", request.payload, "mail", 7, 8, "shop", "order-17", soon, *nothing_yet)
    ]
    assert committed("""
        SELECT task_id, queue, priority, publish_at, parked, announced_at FROM taskbell.outbox
    """) == [(enqueued.task_id, "mail", 7, soon, False, None)]


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("many", [False, True])
async def test_a_delay_counts_from_now_and_a_past_instant_is_now(
    desk: Desk, committed: Committed, key: str | None, *, many: bool
) -> None:
    late = NewTask("late", delay=timedelta(minutes=1), idempotency_key=key)
    past = NewTask("past", scheduled_at=datetime(2020, 1, 1, tzinfo=UTC))

    for request in (late, past):
        await (desk.enqueue_many([request]) if many else desk.enqueue(request))
    await desk.commit()

    waits: dict[str, int] = dict(
        committed("""
            SELECT t.type, round(extract(epoch FROM o.publish_at - t.created_at))
            FROM taskbell.outbox o JOIN taskbell.task t ON t.id = o.task_id
        """)
    )
    assert waits == {"late": 60, "past": 0}


async def test_the_producers_owner_is_the_default(
    kind: str, database_url: str, committed: Committed
) -> None:
    async with open_desk(kind, database_url, owner_id="shop") as desk:
        await desk.enqueue("hers")
        await desk.enqueue_many([NewTask("his", owner_id="other")])
        await desk.commit()

    assert dict(committed("SELECT type, owner_id FROM taskbell.task")) == {
        "hers": "shop",
        "his": "other",
    }


async def test_a_typed_task_is_written_as_its_model_says(desk: Desk, committed: Committed) -> None:
    await desk.enqueue(SendReceipt(order_id=17), priority=2)
    await desk.enqueue_many([SendReceipt(order_id=18)])
    await desk.commit()

    assert committed("""
        SELECT type, queue, max_attempts, priority, payload FROM taskbell.task ORDER BY id
    """) == [
        ("send_receipt", "mail", 8, 2, {"order_id": 17}),
        ("send_receipt", "mail", 8, 7, {"order_id": 18}),
    ]


async def test_tasks_of_a_partition_start_parked_in_the_order_they_were_given(
    desk: Desk, committed: Committed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "CHUNK_TASKS", 3)
    await desk.enqueue("t", 0, partition_key="p", idempotency_key="first")
    await desk.enqueue_many(
        [
            NewTask("t", n, partition_key="p", idempotency_key=f"k{n}" if n % 3 else None)
            for n in range(1, 10)
        ]
    )
    await desk.commit()

    rows = committed("""
        SELECT t.payload, o.parked FROM taskbell.task t JOIN taskbell.outbox o ON o.task_id = t.id
        WHERE o.partition_key = 'p' AND o.partition_seq = t.partition_seq ORDER BY o.partition_seq
    """)
    assert rows == [(n, True) for n in range(10)]


async def test_the_same_key_and_request_give_the_same_task(
    desk: Desk, committed: Committed
) -> None:
    first = await desk.enqueue("t", {"a": 1, "b": 2}, idempotency_key="k")
    await desk.commit()

    again = await desk.enqueue("t", {"b": 2, "a": 1}, idempotency_key="k", correlation_id="retry")
    in_batch = await desk.enqueue_many([NewTask("t", {"a": 1, "b": 2}, idempotency_key="k")])
    await desk.commit()

    assert first.created
    assert again == Enqueued(first.task_id, created=False)
    assert in_batch == [again]
    assert committed(COUNTS) == [(1, 1, 1)]


async def test_a_key_belongs_to_its_owner(desk: Desk) -> None:
    hers = await desk.enqueue("t", 1, idempotency_key="k", owner_id="hers")
    his = await desk.enqueue("t", 2, idempotency_key="k", owner_id="his")

    assert hers.created
    assert his.created


@pytest.mark.parametrize("other", [2, 1.0])
async def test_the_same_key_with_another_request_is_a_conflict_that_harms_nothing(
    desk: Desk, committed: Committed, other: object
) -> None:
    first = await desk.enqueue("t", {"n": 1}, idempotency_key="k")
    with pytest.raises(IdempotencyConflict) as conflict:
        await desk.enqueue("t", {"n": other}, idempotency_key="k")
    await desk.enqueue("after")
    await desk.commit()

    assert (conflict.value.idempotency_key, conflict.value.task_id) == ("k", first.task_id)
    assert committed("SELECT type FROM taskbell.task ORDER BY id") == [("t",), ("after",)]


async def test_a_conflict_in_a_batch_leaves_its_neighbours_written(
    desk: Desk, committed: Committed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "CHUNK_TASKS", 2)
    await desk.enqueue("t", 0, idempotency_key="k")
    tasks = [
        NewTask("before"),
        NewTask("t", 1, idempotency_key="k"),
        NewTask("after", idempotency_key="l"),
        NewTask("after"),
    ]

    with pytest.raises(IdempotencyConflict, match="'k'"):
        await desk.enqueue_many(tasks)
    await desk.commit()

    assert sorted(committed("SELECT type FROM taskbell.task")) == [
        ("after",),
        ("after",),
        ("before",),
        ("t",),
    ]


async def test_a_savepoint_takes_a_conflicting_batch_back_as_a_whole(
    desk: Desk, committed: Committed
) -> None:
    await desk.enqueue("t", 0, idempotency_key="k")
    await desk.run("SAVEPOINT batch")

    with pytest.raises(IdempotencyConflict):
        await desk.enqueue_many([NewTask("new"), NewTask("t", 1, idempotency_key="k")])
    await desk.run("ROLLBACK TO SAVEPOINT batch")
    await desk.commit()

    assert committed("SELECT type FROM taskbell.task") == [("t",)]


async def test_a_key_that_was_rolled_back_is_free_again(desk: Desk) -> None:
    await desk.run("SAVEPOINT attempt")
    first = await desk.enqueue("t", 1, idempotency_key="k")
    await desk.run("ROLLBACK TO SAVEPOINT attempt")

    second = await desk.enqueue("t", 2, idempotency_key="k")

    assert second.created
    assert second.task_id != first.task_id


async def test_a_batch_answers_in_its_own_order(
    desk: Desk, committed: Committed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "CHUNK_TASKS", 4)
    known = await desk.enqueue("t", "known", idempotency_key="known")
    tasks = [NewTask("t", f"n{n}", idempotency_key=f"k{n}" if n % 2 else None) for n in range(11)]
    tasks += [NewTask("t", "known", idempotency_key="known"), tasks[1], NewTask("t", "last")]

    answers = await desk.enqueue_many(tasks)
    await desk.commit()

    payloads: dict[object, object] = dict(committed("SELECT id, payload FROM taskbell.task"))
    assert [payloads[answer.task_id] for answer in answers] == [task.payload for task in tasks]
    assert [n for n, answer in enumerate(answers) if not answer.created] == [11, 12]
    assert answers[11].task_id == known.task_id
    assert answers[12].task_id == answers[1].task_id


async def test_equal_keys_in_one_batch_with_other_bodies_are_a_conflict(desk: Desk) -> None:
    with pytest.raises(IdempotencyConflict, match="'k'"):
        await desk.enqueue_many(
            [NewTask("t", 1, idempotency_key="k"), NewTask("t", 2, idempotency_key="k")]
        )


@pytest.mark.parametrize("key", [None, "k"])
async def test_the_same_id_is_created_once(desk: Desk, key: str | None) -> None:
    request = NewTask("t", task_id=new_task_id(), idempotency_key=key)

    answers = await desk.enqueue_many([request, request])
    again = await desk.enqueue(request)

    assert [answer.created for answer in (*answers, again)] == [True, False, False]
    assert {answer.task_id for answer in (*answers, again)} == {request.task_id}


async def test_a_refused_task_leaves_the_transaction_usable_and_empty(
    desk: Desk, committed: Committed
) -> None:
    for broken in ("\x00", float("nan"), "\ud800", {"a": object()}):
        with pytest.raises(InvalidTask):
            await desk.enqueue("t", broken)
    half_right: list[Any] = [NewTask("t"), "t"]
    with pytest.raises(InvalidTask, match=r"tasks\[1\]"):
        await desk.enqueue_many(half_right)
    await desk.enqueue("fine")
    await desk.commit()

    assert committed("SELECT type FROM taskbell.task") == [("fine",)]


async def test_the_longest_keys_fit_the_indexes(desk: Desk, committed: Committed) -> None:
    # Random text: repeated characters are compressed and would fit anyway.
    text = "".join(chr(0x400 + (n * n * 7919) % 200) for n in range(512))
    request = NewTask(
        "t" * 200,
        queue="q" * 200,
        partition_key=text[:256],
        idempotency_key=text,
        owner_id="o" * 200,
    )

    await desk.enqueue(request)
    await desk.enqueue_many([request])
    await desk.commit()

    assert committed(COUNTS) == [(1, 1, 1)]


async def test_the_task_keeps_the_trace_it_was_enqueued_in(
    desk: Desk, committed: Committed
) -> None:
    context = trace.SpanContext(0xABC, 0xDEF, is_remote=False)

    with trace.use_span(trace.NonRecordingSpan(context)):
        await desk.enqueue("t")
        await desk.enqueue_many([NewTask("t"), NewTask("t", idempotency_key="k")])
    await desk.commit()

    expected = f"00-{0xABC:032x}-{0xDEF:016x}-00"
    assert committed("SELECT traceparent FROM taskbell.task") == [(expected,)] * 3


@pytest.mark.parametrize("ring", [True, False])
@pytest.mark.parametrize("key", [None, "k"])
async def test_a_sleeping_listener_is_rung_unless_the_producer_never_rings(
    kind: str, database_url: str, observer: psycopg.Connection, key: str | None, *, ring: bool
) -> None:
    observer.execute("LISTEN taskbell")
    observer.execute("""
        INSERT INTO taskbell.bell VALUES
            ('relay', clock_timestamp() - interval '1 s', clock_timestamp() + interval '1 h')
    """)
    async with open_desk(kind, database_url, ring=ring) as desk:
        await desk.enqueue("t", idempotency_key=key)
        await desk.commit()
        await desk.enqueue_many([NewTask("t", idempotency_key=key and "other")])
        await desk.commit()

    # What was rung arrives with the answer to any later statement.
    observer.execute("SELECT 1")
    assert len(list(observer.notifies(timeout=0))) == (2 if ring else 0)


async def test_nobody_is_rung_for_a_task_that_is_known(
    desk: Desk, observer: psycopg.Connection
) -> None:
    await desk.enqueue("t", idempotency_key="k")
    await desk.commit()
    observer.execute("LISTEN taskbell")
    observer.execute("""
        INSERT INTO taskbell.bell VALUES
            ('relay', clock_timestamp() - interval '1 s', clock_timestamp() + interval '1 h')
    """)

    await desk.enqueue("t", idempotency_key="k")
    await desk.enqueue_many([NewTask("t", idempotency_key="k")])
    await desk.commit()

    observer.execute("SELECT 1")
    assert list(observer.notifies(timeout=0)) == []
