"""Nothing a handler returns or raises ends the worker, or leaves its task behind."""

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest

from support.factories import make_tasks
from support.workers import Reports, rows, task_of, working
from taskbell.consumer import Consumer, Context, Fixed
from taskbell.producer import TypedTask

AT_ONCE = Fixed(delay=0)


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
    assert {each.error_class for each in letters} == {"taskbell.UnstorableResult"}
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
