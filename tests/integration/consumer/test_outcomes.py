"""What a handler does decides what becomes of its task."""

import asyncio
import math
import threading
from collections.abc import Callable
from typing import Any

import pytest

from support.factories import make_tasks
from support.workers import Reports, rows, task_of, working
from taskbell.consumer import Consumer, Context, Reject, RetryLater, RetryPolicy
from taskbell.producer import TypedTask
from taskbell.shared.events import TaskFailed, TypeUnknown

AT_ONCE = RetryPolicy(delay=0)


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

    @app.handler("slow", retry=RetryPolicy(delay=3600))
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


def nested(depth: int) -> list[Any]:
    result: list[Any] = []
    for _ in range(depth):
        result = [result]
    return result


async def test_a_result_that_cannot_be_stored_ends_the_task_for_good(
    database_url: str, reports: Reports
) -> None:
    app = Consumer()
    results: dict[str, object] = {
        "nan": math.nan,
        "nul": {"text": "a\x00b"},
        "surrogate": ["\ud800"],
        "large": "x" * (2 << 20),
        "object": object(),
        "set": {1, 2},
        "deep": nested(5000),
        "key": {1: 2},
    }

    @app.handler("odd", retry=AT_ONCE)
    async def odd(_context: Context, payload: str) -> object:
        return results[payload]

    ids = [make_tasks(database_url, type="odd", payload=name)[0] for name in results]
    (fine,) = make_tasks(database_url, type="odd", payload="fine")
    results["fine"] = r"literally \u0000"
    async with working(app, database_url, reports):
        await reports.settled(*ids, status="FAILED")
        await reports.settled(fine)

    letters = rows(database_url, "SELECT * FROM taskbell.dead_letter")
    assert {each.error_class for each in letters} == {
        "taskbell.consumer.execution.UnstorableResult"
    }
    assert all(each.last_error.startswith("the result") for each in letters)
    assert task_of(database_url, fine).result == r"literally \u0000"


class Mute(Exception):
    """Fails at describing itself."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def recursion(depth: int = 0) -> None:
    recursion(depth + 1)


def raising(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


HOSTILE: dict[str, Callable[[], None]] = {
    "mute": raising(Mute()),
    "nul": raising(ValueError("a\x00b \ud800")),
    "huge": raising(ValueError("x" * 10_000_000)),
    "group": raising(ExceptionGroup("several", [ValueError("one"), Mute()])),
    "recursion": recursion,
    "exit": raising(SystemExit(1)),
    "interrupt": raising(KeyboardInterrupt()),
    "cancelled": raising(asyncio.CancelledError()),
    "closed": raising(GeneratorExit()),
    "stop": raising(StopIteration(1)),
    "stop async": raising(StopAsyncIteration()),
}


@pytest.mark.parametrize("on_loop", [True, False], ids=["async", "thread"])
async def test_no_exception_ends_the_worker_or_leaves_its_task_behind(
    database_url: str,
    reports: Reports,
    on_loop: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    app = Consumer()

    async def on_the_loop(_context: Context, payload: str) -> None:
        HOSTILE[payload]()

    def in_a_thread(_context: Context, payload: str) -> None:
        HOSTILE[payload]()

    app.handler("hostile", retry=AT_ONCE)(on_the_loop if on_loop else in_a_thread)
    ids = [
        make_tasks(database_url, type="hostile", payload=name, max_attempts=2)[0]
        for name in HOSTILE
    ]
    async with working(app, database_url, reports) as worker:
        await reports.settled(*ids, status="FAILED")
        assert await worker.stopped()

    assert len(rows(database_url, "SELECT task_id FROM taskbell.failure")) == 2 * len(HOSTILE)
    assert rows(database_url, "SELECT task_id FROM taskbell.lease") == []


async def test_a_validator_that_fails_in_its_own_way_is_a_failed_try(
    database_url: str, reports: Reports
) -> None:
    app = Consumer()

    class Odd(TypedTask, type="odd"):
        """Its reading raises what pydantic does not expect."""

        def model_post_init(self, _context: object, /) -> None:
            raise KeyError("odd")

    @app.handler(Odd, retry=AT_ONCE)
    async def handle(_context: Context, _task: Odd) -> None:
        return

    (task_id,) = make_tasks(database_url, type="odd", max_attempts=2)
    async with working(app, database_url, reports):
        await reports.settled(task_id, status="FAILED")

    assert task_of(database_url, task_id).used == 2


async def test_a_sync_handler_that_hands_out_a_coroutine_is_told_so(
    database_url: str, reports: Reports
) -> None:
    app = Consumer()

    async def inner() -> None:
        return

    @app.handler("wrapped", retry=AT_ONCE)
    def wrapped(_context: Context, _payload: object) -> object:
        return inner()

    (task_id,) = make_tasks(database_url, type="wrapped", max_attempts=1)
    async with working(app, database_url, reports):
        await reports.settled(task_id, status="FAILED")

    assert "not async def" in task_of(database_url, task_id).error_message
