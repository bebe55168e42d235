"""Handlers in processes of their own: killed when they must end, and harmless when they crash."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from integration.consumer.ledger import entries, make_ledger, take_away
from support.factories import make_tasks
from support.isolated import app
from support.practice import AFTER_EFFECT_COMMIT, BEFORE_EFFECT_COMMIT
from support.waiting import wait_until
from support.workers import Reports, rows, task_of, working
from taskbell.consumer.reports import IgnoredAfterEffect
from taskbell.shared.database import conninfo
from taskbell.shared.events import LeaseLost, TaskFailed, TaskSettled

# A commit that waits for whoever holds the gate, and tells who waits.
GATE = """
CREATE FUNCTION public.pass() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(17);
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER pass AFTER INSERT ON public.ledger
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.pass();
"""
AT_THE_GATE = """
SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = 17 AND NOT granted
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
BEHIND_IT = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND starts_with(application_name, 'taskbell ')
  AND pg_blocking_pids(pid) && ARRAY(SELECT pid FROM pg_locks
                                     WHERE locktype = 'advisory' AND objid = 17 AND NOT granted)
"""


async def begun(pid_file: Path) -> int:
    """The process of the handler, once that runs."""

    def look() -> str:
        return pid_file.read_text(encoding="utf-8") if pid_file.exists() else ""

    return int(await asyncio.to_thread(wait_until, "the handler runs", look))


def child_of_ours() -> int:
    """The one process in which an isolated handler runs."""
    mine = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    children = [int(pid) for each in mine for pid in each.read_text(encoding="ascii").split()]
    (found,) = [
        pid for pid in children if b"consumer.child" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    return found


async def seen(url: str, query: str) -> list[Any]:
    """The rows of a query, once there are any."""
    return await asyncio.to_thread(wait_until, query, lambda: rows(url, query))


async def gone(pid: int) -> None:
    def look() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    await asyncio.to_thread(wait_until, "the process is gone", look)


async def test_isolated_handlers_of_both_colours_return_their_results_from_one_process(
    database_url: str, reports: Reports
) -> None:
    async with working(app, database_url, reports, slots=1):
        (typed,) = make_tasks(database_url, type="add", payload={"numbers": [1, 2]})
        await reports.settled(typed)
        (plain,) = make_tasks(database_url, type="add_async", payload=[3, 4])
        (hopeless,) = make_tasks(database_url, type="hopeless")
        await reports.settled(plain)
        await reports.settled(hopeless, status="FAILED")

    first, second = task_of(database_url, typed).result, task_of(database_url, plain).result
    assert (first["sum"], second["sum"]) == (3, 7)
    assert first["pid"] == second["pid"] != os.getpid()
    assert first["key"] == str(typed)
    await gone(first["pid"])


@pytest.mark.parametrize("signal_name", ["SIGSEGV", "SIGKILL"])
async def test_a_crash_is_a_failed_try_and_leaves_the_neighbours_alone(
    database_url: str, reports: Reports, signal_name: str
) -> None:
    crashing = make_tasks(database_url, type="crash", payload={"signal": signal_name})
    adding = make_tasks(database_url, 3, type="add_async", payload=[1])
    async with working(app, database_url, reports, slots=2):
        await reports.settled(*crashing, *adding)

    (failure,) = rows(database_url, "SELECT * FROM taskbell.failure")
    assert failure.error == f"the process died with {signal_name}"
    assert failure.error_class == "taskbell.ProcessDied"
    assert task_of(database_url, crashing[0]).result == 2


async def test_a_timeout_kills_the_process_and_is_a_failed_try(
    database_url: str, reports: Reports
) -> None:
    (task_id,) = make_tasks(database_url, type="timed")
    async with working(app, database_url, reports):
        # The process of the first try was killed, and the second has to be quick, too.
        await reports.some(TaskFailed)

    assert reports.of(TaskFailed)[0].error_class == "taskbell.AttemptTimeout"
    assert task_of(database_url, task_id).used >= 1


@pytest.mark.parametrize("why", ["lost", "cancelled", "released"])
async def test_whatever_interrupts_an_attempt_kills_its_process(
    database_url: str, reports: Reports, why: str, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    (task_id,) = make_tasks(database_url, type="endless", payload={"pid_file": str(pid_file)})
    async with working(app, database_url, reports, grace=0) as worker:
        pid = await begun(pid_file)
        match why:
            case "lost":
                take_away(database_url, task_id)
                (lost,) = await reports.some(LeaseLost)
                assert (lost.attempt, lost.current_attempt) == (1, 2)
            case "cancelled":
                rows(database_url, "UPDATE taskbell.lease SET cancel_requested = true")
                await reports.settled(task_id, status="CANCELLED")
            case _:
                assert await worker.stopped()
                assert task_of(database_url, task_id).status == "PENDING"
        await gone(pid)

    assert reports.of(TaskFailed) == []


async def test_effects_from_another_process_settle_their_tasks(
    database_url: str, reports: Reports
) -> None:
    make_ledger(database_url)
    ids = [make_tasks(database_url, type=name)[0] for name in ("effect", "effect_async")]
    async with working(app, database_url, reports, slots=2):
        await reports.settled(*ids)

    assert sorted(entries(database_url)) == ["connection", "session"]
    assert {task_of(database_url, each).attempt_count for each in ids} == {1}
    assert [each.error for each in reports.of(IgnoredAfterEffect)] == ["too late"]
    assert reports.of(LeaseLost) == []


@pytest.mark.parametrize(
    ("point", "starts"), [(BEFORE_EFFECT_COMMIT.point, 2), (AFTER_EFFECT_COMMIT.point, 1)]
)
async def test_a_process_that_dies_around_the_commit_of_its_effect_leaves_one_in_the_end(
    database_url: str, reports: Reports, point: str, starts: int
) -> None:
    make_ledger(database_url)
    payload = {"point": point, "url": database_url}
    (task_id,) = make_tasks(database_url, type="dies_around_commit", payload=payload)
    async with working(app, database_url, reports, slots=1):
        await reports.settled(task_id)

    task = task_of(database_url, task_id)
    assert (task.status, task.attempt_count) == ("COMPLETED", starts)
    assert len(entries(database_url)) == 1
    assert reports.of(LeaseLost) == []


@pytest.mark.parametrize("committed", [True, False], ids=["goes through", "does not"])
async def test_a_process_that_dies_while_its_effect_commits_leaves_one_whether_or_not_it(
    database_url: str, reports: Reports, *, committed: bool
) -> None:
    make_ledger(database_url)
    rows(database_url, GATE)
    payload = {"point": "", "url": database_url}
    with psycopg.connect(conninfo(database_url), autocommit=True) as gate:
        gate.execute("SELECT pg_advisory_lock(17)")
        (task_id,) = make_tasks(database_url, type="dies_around_commit", payload=payload)
        async with working(app, database_url, reports, slots=1):
            (server,) = await seen(database_url, AT_THE_GATE)
            os.kill(child_of_ours(), signal.SIGKILL)
            await seen(database_url, BEHIND_IT)  # the worker asks what became of it
            if not committed:
                rows(database_url, "SELECT pg_terminate_backend(%s)", server.pid)
            gate.execute("SELECT pg_advisory_unlock(17)")
            await reports.settled(task_id)

    task = task_of(database_url, task_id)
    assert (task.status, task.attempt_count) == ("COMPLETED", 1 if committed else 2)
    assert len(entries(database_url)) == 1
    assert [each.status for each in reports.of(TaskSettled)].count("COMPLETED") == 1
