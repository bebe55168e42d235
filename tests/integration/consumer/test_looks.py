"""Between its beats the keeper hears of cancellations and writes what handlers say of progress."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from services import Postgres
from support import isolated
from support.factories import make_tasks
from support.hands import Hands, hands, session
from support.waiting import PATIENCE, wait_until
from support.workers import Reports, rows, working
from taskbell.consumer import Consumer, Context
from taskbell.shared import tasks
from taskbell.shared.database import Database, DedicatedConnection
from taskbell.shared.statement import Statement
from taskbell.shared.statements import lease

# A third of it is longer than a test may take: no beat is due before the test has ended.
NO_BEAT = 3600

UPDATES = Statement("""
SELECT n_tup_upd AS updated, n_tup_hot_upd AS hot FROM pg_stat_xact_user_tables
WHERE schemaname = 'taskbell' AND relname = 'lease'
""")


async def cancel(url: str, task_id: UUID) -> str:
    connection = DedicatedConnection(Database(url), "operator")
    answers = await tasks.cancel_many(connection, [task_id], actor="me")
    await connection.close()
    return answers[task_id]


async def progress_is(url: str, task_id: UUID, value: object) -> None:
    """Return once this is what the database knows of the task's progress."""

    def look() -> bool:
        found = rows(url, "SELECT progress FROM taskbell.lease WHERE task_id = %s", task_id)
        return [row.progress for row in found] == [value]

    await asyncio.to_thread(wait_until, f"the progress is {value}", look)


async def test_a_running_handler_hears_of_its_cancellation_long_before_its_next_beat(
    database_url: str, reports: Reports
) -> None:
    app, began, heard = Consumer(), asyncio.Event(), list[bool]()

    @app.handler("long", lease=NO_BEAT)
    async def long(context: Context, _payload: object) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            heard.append(context.cancelled)

    (task_id,) = make_tasks(database_url, type="long")
    async with working(app, database_url, reports):
        await began.wait()
        assert await cancel(database_url, task_id) == "requested"
        await reports.settled(task_id, status="CANCELLED")

    assert heard == [True]


async def test_a_handler_in_a_thread_sees_that_it_is_cancelled_likewise(
    database_url: str, reports: Reports
) -> None:
    app, began = Consumer(), threading.Event()

    @app.handler("long", lease=NO_BEAT)
    def long(context: Context, _payload: object) -> None:
        began.set()
        while not (context.cancelled or context.lost):
            time.sleep(0.01)
        raise RuntimeError("told to stop")

    (task_id,) = make_tasks(database_url, type="long")
    async with working(app, database_url, reports):
        await asyncio.to_thread(began.wait, PATIENCE)
        assert await cancel(database_url, task_id) == "requested"
        await reports.settled(task_id, status="CANCELLED")


async def test_looks_go_on_after_a_restart_of_postgres(
    private_postgres: Postgres, private_database_url: str, reports: Reports
) -> None:
    app, began = Consumer(), asyncio.Event()

    @app.handler("long", lease=NO_BEAT)
    async def long(_context: Context, _payload: object) -> None:
        began.set()
        await asyncio.Event().wait()

    (task_id,) = make_tasks(private_database_url, type="long")
    async with working(app, private_database_url, reports):
        await began.wait()
        # Committed durably, and with it what was committed before: else the claim might be lost.
        make_tasks(private_database_url, type="long", delay=3600)
        await asyncio.to_thread(private_postgres.restart_immediately)
        assert await cancel(private_database_url, task_id) == "requested"
        await reports.settled(task_id, status="CANCELLED")


async def test_the_newest_progress_is_written_at_the_next_look_and_gone_with_the_lease(
    database_url: str, reports: Reports
) -> None:
    app, go = Consumer(), threading.Event()

    @app.handler("on_loop", lease=NO_BEAT)
    async def on_loop(context: Context, _payload: object) -> None:
        for done in range(10):
            context.progress({"done": done})
        await asyncio.to_thread(go.wait, PATIENCE)

    @app.handler("in_thread", lease=NO_BEAT)
    def in_thread(context: Context, _payload: object) -> None:
        for done in range(10):
            context.progress({"done": done})
        go.wait(PATIENCE)

    ids = [make_tasks(database_url, type=name)[0] for name in ("on_loop", "in_thread")]
    async with working(app, database_url, reports):
        for task_id in ids:
            await progress_is(database_url, task_id, {"done": 9})
        go.set()
        await reports.settled(*ids)

    assert rows(database_url, "SELECT * FROM taskbell.lease") == []


async def test_progress_is_heard_from_a_process_of_its_own(
    database_url: str, reports: Reports, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    (task_id,) = make_tasks(database_url, type="telling", payload={"go": str(go)})
    async with working(isolated.app, database_url, reports):
        await progress_is(database_url, task_id, "half")
        go.touch()
        await reports.settled(task_id)


async def test_progress_waits_for_no_lock_and_is_tried_again(
    database_url: str, reports: Reports
) -> None:
    app, go, locked = Consumer(), asyncio.Event(), asyncio.Event()
    held = Statement("SELECT task_id FROM taskbell.lease FOR UPDATE")
    other = Statement("SELECT progress FROM taskbell.lease WHERE progress IS NOT NULL")

    @app.handler("long", lease=NO_BEAT)
    async def long(context: Context, payload: dict[str, Any]) -> None:
        if payload["lease"] == "locked":
            await locked.wait()
        context.progress(payload["lease"])
        await go.wait()

    (first,) = make_tasks(database_url, type="long", payload={"lease": "locked"})
    async with working(app, database_url, reports), session(database_url) as locker:
        await asyncio.to_thread(
            wait_until, "it runs", lambda: rows(database_url, "SELECT 1 FROM taskbell.lease")
        )
        assert len(await locker.run(held)) == 1
        locked.set()
        (second,) = make_tasks(database_url, type="long", payload={"lease": "free"})
        await progress_is(database_url, second, "free")
        assert len(await locker.run(other)) == 1
        await locker.commit()
        await progress_is(database_url, first, "locked")
        go.set()
        await reports.settled(first, second)


async def test_progress_of_an_attempt_that_is_over_changes_nothing(database_url: str) -> None:
    make_tasks(database_url)
    async with hands(database_url) as worker:
        (held,) = await worker.claim()
        answers = [
            await said(worker, held.task_id, attempt, name)
            for attempt, name in ((held.attempt - 1, "w"), (held.attempt, "other"))
        ]
        assert answers == [0, 0]
        assert await said(worker, held.task_id, held.attempt, "w") == 1

    (row,) = rows(database_url, "SELECT progress FROM taskbell.lease")
    assert row.progress == 1


async def said(worker: Hands, task_id: UUID, attempt: int, name: str) -> int:
    """How many leases took this progress."""
    taken = await worker.connection.run(
        lease.PROGRESS, task_ids=[task_id], attempts=[attempt], progress=["1"], worker_id=name
    )
    return len(taken)


@pytest.mark.parametrize("requested", ["false", "true"])
async def test_beats_and_progress_stay_hot_beside_the_index_of_cancellations(
    database_url: str, requested: str
) -> None:
    make_tasks(database_url, 20)
    async with hands(database_url) as worker, session(database_url) as keeper:
        held = await worker.claim(20)
        rows(database_url, f"UPDATE taskbell.lease SET cancel_requested = {requested}")
        who = {"task_ids": [each.task_id for each in held], "attempts": [1] * 20, "worker_id": "w"}
        await keeper.run(lease.HEARTBEAT, leases=[30.0] * 20, **who)
        await keeper.run(lease.PROGRESS, progress=['"half"'] * 20, **who)
        (counted,) = await keeper.run(UPDATES)

    assert (counted.updated, counted.hot) == (40, 40)
