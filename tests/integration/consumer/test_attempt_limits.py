"""Timeouts, policies and holds: what ends a try, and when the next one is."""

import asyncio
import subprocess
import sys

from support.factories import make_tasks
from support.workers import Reports, rows, task_of, working
from taskbell.consumer import Consumer, Context, Fixed, RetryLater
from taskbell.shared.events import TaskFailed

DUE = """
SELECT extract(epoch FROM publish_at - clock_timestamp()) AS seconds FROM taskbell.outbox
WHERE task_id = %s
"""


async def test_a_try_that_takes_too_long_is_cancelled_or_told_and_fails(
    database_url: str, reports: Reports
) -> None:
    app, told = Consumer(), list[bool]()

    @app.handler("loop", timeout=0.2, retry={TimeoutError: Fixed(0)})
    async def on_loop(context: Context, _payload: object) -> int:
        if context.attempt == 1:
            await asyncio.Event().wait()
        return context.attempt

    @app.handler("thread", timeout=0.2, retry={TimeoutError: Fixed(0)})
    def in_thread(context: Context, _payload: object) -> int:
        while context.attempt == 1:
            if context.timed_out:
                told.append(context.lost)
                raise RuntimeError("told to stop")
        return context.attempt

    ids = [make_tasks(database_url, type=name)[0] for name in ("loop", "thread")]
    async with working(app, database_url, reports):
        await reports.settled(*ids)

    assert [task_of(database_url, each).result for each in ids] == [2, 2]
    assert told == [False]
    classes = rows(database_url, "SELECT error_class FROM taskbell.failure")
    assert [each.error_class for each in classes] == ["taskbell.AttemptTimeout"] * 2


async def test_each_failure_is_retried_by_the_policy_of_its_class_or_not_at_all(
    database_url: str, reports: Reports
) -> None:
    app = Consumer()
    errors: dict[str, Exception] = {"timeout": TimeoutError(), "other": ValueError()}

    @app.handler(
        "t", retry={TimeoutError: Fixed(1000), Exception: Fixed(3000)}, permanent=[KeyError]
    )
    async def fail(_context: Context, payload: str) -> None:
        raise errors[payload]

    ids = [make_tasks(database_url, type="t", payload=each)[0] for each in (*errors, "permanent")]
    async with working(app, database_url, reports):
        await reports.settled(*ids[:2], status="RETRYING")
        await reports.settled(ids[2], status="FAILED")

    due = [rows(database_url, DUE, each)[0].seconds for each in ids[:2]]
    assert 900 < due[0] <= 1000
    assert 2900 < due[1] <= 3000
    assert task_of(database_url, ids[2]).used == 1


async def test_retry_later_can_hold_the_whole_queue(database_url: str, reports: Reports) -> None:
    app, starts = Consumer(), list[str]()

    @app.handler("t", queue="mail")
    async def limited(_context: Context, payload: str) -> None:
        starts.append(payload)
        raise RetryLater(1000, hold="queue")

    (first,) = make_tasks(database_url, type="t", queue="mail", payload="first")
    async with working(app, database_url, reports):
        await reports.settled(first, status="RETRYING")
        make_tasks(database_url, type="t", queue="mail", payload="second")
        (other,) = make_tasks(database_url, type="other", queue="mail")
    (held,) = rows(
        database_url,
        "SELECT extract(epoch FROM paused_until - clock_timestamp()) AS seconds "
        "FROM taskbell.queue WHERE name = 'mail'",
    )

    assert starts == ["first"]
    assert 900 < held.seconds <= 1000
    task = task_of(database_url, first)
    assert (task.status, task.used) == ("RETRYING", 0)
    assert task_of(database_url, other).attempt_count == 0
    assert reports.of(TaskFailed) == []


def test_a_worker_whose_handlers_have_no_effect_through_sqlalchemy_never_loads_it() -> None:
    program = (
        "import sys, taskbell.consumer.command, taskbell.consumer.child;"
        "assert not [name for name in sys.modules if name.startswith('sqlalchemy')]"
    )

    subprocess.run([sys.executable, "-c", program], check=True)
