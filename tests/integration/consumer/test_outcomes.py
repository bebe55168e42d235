"""What a handler does decides what becomes of its task."""

import threading
from typing import Any

from support.factories import make_tasks
from support.workers import Reports, rows, task_of, working
from taskbell.consumer import Consumer, Context, Fixed, Reject, RetryLater
from taskbell.producer import TypedTask
from taskbell.shared.events import TaskFailed, TypeUnknown

AT_ONCE = Fixed(delay=0)


class Greet(TypedTask, type="greet"):
    """A typed payload."""

    name: str


async def test_a_typed_and_an_untyped_handler_async_or_not_complete_with_their_result(
    database_url: str, reports: Reports
) -> None:
    app = Consumer()

    @app.handler(Greet)
    async def greet(context: Context, task: Greet) -> str:
        return f"{context.type} {task.name}"

    @app.handler("count")
    def count(_context: Context, payload: list[int]) -> dict[str, Any]:
        return {"sum": sum(payload), "thread": threading.current_thread().name[:8]}

    (greeting,) = make_tasks(database_url, type="greet", payload={"name": "Ada"})
    (counting,) = make_tasks(database_url, type="count", payload=[1, 2, 3])
    async with working(app, database_url, reports):
        await reports.settled(greeting, counting)

    assert task_of(database_url, greeting).result == "greet Ada"
    assert task_of(database_url, counting).result == {"sum": 6, "thread": "taskbell"}
    assert task_of(database_url, greeting).finished_at is not None
    assert rows(database_url, "SELECT task_id FROM taskbell.failure") == []


async def test_a_failing_task_is_tried_up_to_max_attempts_and_then_a_dead_letter(
    database_url: str, reports: Reports
) -> None:
    app, attempts = Consumer(), list[int]()

    @app.handler("fragile", retry=AT_ONCE)
    async def fragile(context: Context, _payload: object) -> None:
        attempts.append(context.attempt)
        raise ValueError(f"no luck at {context.attempt}")

    (task_id,) = make_tasks(database_url, type="fragile", max_attempts=3)
    async with working(app, database_url, reports):
        await reports.settled(task_id, status="FAILED")

    assert attempts == [1, 2, 3]
    task = task_of(database_url, task_id)
    assert (task.status, task.used, task.error_message) == ("FAILED", 3, "no luck at 3")
    failures = rows(database_url, "SELECT * FROM taskbell.failure ORDER BY attempt")
    assert [(each.attempt, each.outcome, each.error_class) for each in failures] == [
        (attempt, "retry", "ValueError") for attempt in (1, 2, 3)
    ]
    assert "no luck" in failures[0].traceback
    (letter,) = rows(database_url, "SELECT * FROM taskbell.dead_letter")
    assert (letter.task_id, letter.last_error) == (task_id, "no luck at 3")
    assert len(reports.of(TaskFailed)) == 3


async def test_a_retry_waits_for_the_delay_of_its_policy(
    database_url: str, reports: Reports
) -> None:
    app = Consumer()

    @app.handler("slow", retry=Fixed(delay=3600))
    async def slow(_context: Context, _payload: object) -> None:
        raise ValueError("later")

    (task_id,) = make_tasks(database_url, type="slow")
    async with working(app, database_url, reports):
        await reports.settled(task_id, status="RETRYING")

    (entry,) = rows(
        database_url,
        "SELECT extract(epoch FROM publish_at - clock_timestamp()) AS due FROM taskbell.outbox",
    )
    assert 3500 < entry.due <= 3600


async def test_reject_is_final_at_the_first_try(database_url: str, reports: Reports) -> None:
    app = Consumer()

    @app.handler("hopeless", retry=AT_ONCE)
    async def hopeless(_context: Context, _payload: object) -> None:
        raise Reject("no such order")

    (task_id,) = make_tasks(database_url, type="hopeless")
    async with working(app, database_url, reports):
        await reports.settled(task_id, status="FAILED")

    task = task_of(database_url, task_id)
    assert (task.used, task.error_message) == (1, "no such order")


async def test_retry_later_costs_no_try(database_url: str, reports: Reports) -> None:
    app = Consumer()

    @app.handler("patient")
    async def patient(context: Context, _payload: object) -> None:
        if context.attempt <= 5:
            raise RetryLater(0)

    (task_id,) = make_tasks(database_url, type="patient", max_attempts=1)
    async with working(app, database_url, reports):
        await reports.settled(task_id)

    task = task_of(database_url, task_id)
    assert (task.attempt_count, task.used) == (6, 1)


async def test_a_payload_that_does_not_fit_its_type_is_permanent_and_not_quoted(
    database_url: str, reports: Reports
) -> None:
    app = Consumer()

    @app.handler(Greet, retry=AT_ONCE)
    async def greet(_context: Context, _task: Greet) -> None:
        raise AssertionError("never called")

    (task_id,) = make_tasks(database_url, type="greet", payload={"name": ["a secret"]})
    async with working(app, database_url, reports):
        await reports.settled(task_id, status="FAILED")

    (letter,) = rows(database_url, "SELECT * FROM taskbell.dead_letter")
    assert letter.error_class.endswith("UnreadablePayload")
    assert "name: " in letter.last_error
    (failure,) = rows(database_url, "SELECT * FROM taskbell.failure")
    assert "secret" not in letter.last_error + failure.error + failure.traceback


async def test_an_unknown_type_is_put_back_with_a_delay_and_burns_no_try(
    database_url: str, reports: Reports
) -> None:
    app = Consumer()

    @app.handler("known")
    async def known(_context: Context, _payload: object) -> None:
        return

    (task_id,) = make_tasks(database_url, type="unknown")
    async with working(app, database_url, reports):
        await reports.settled(task_id, status="PENDING")

    assert reports.of(TypeUnknown)[0].type == "unknown"
    (entry,) = rows(
        database_url,
        "SELECT extract(epoch FROM publish_at - clock_timestamp()) AS due FROM taskbell.outbox",
    )
    assert 20 < entry.due <= 30
    assert task_of(database_url, task_id).used == 0
