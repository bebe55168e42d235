"""A database that goes away, or does not answer, costs no try and runs nothing twice."""

import asyncio
import time
from urllib.parse import urlsplit

import psycopg
import pytest

from integration.consumer.applications import gated
from support.factories import make_tasks
from support.proxy import Proxy
from support.read_only import Looks, end_sessions, read_only
from support.workers import Reports, rows, task_of, working
from taskbell.consumer import Consumer, Context, Fixed
from taskbell.shared.database import conninfo
from taskbell.shared.events import DatabaseFound, DatabaseLost, LeaseLost


async def test_a_worker_cut_off_stops_its_handler_before_another_starts_it(
    database_url: str, reports: Reports
) -> None:
    cut_off, other, ended, begun = Consumer(), Consumer(), list[float](), asyncio.Event()

    @cut_off.handler("t", lease=10)  # a second of it is left then, enough on a loaded machine
    async def first(_context: Context, _payload: object) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(time.monotonic())

    @other.handler("t")
    async def second(_context: Context, _payload: object) -> float:
        return time.monotonic()

    (task_id,) = make_tasks(database_url, type="t")
    theirs = Reports()
    async with (
        Proxy.before(database_url) as proxy,
        working(cut_off, proxy.through(database_url), reports, grace=0),
    ):
        await begun.wait()
        proxy.refuse()
        proxy.cut()
        async with working(other, database_url, theirs):
            await theirs.settled(task_id)
        await proxy.admit()

    lost = reports.of(LeaseLost)[0]
    assert (lost.noticed_by, lost.attempt, lost.current_attempt) == ("watchdog", 1, 1)
    assert ended[0] < task_of(database_url, task_id).result


async def test_an_outage_longer_than_a_lease_burns_no_try(
    database_url: str, reports: Reports
) -> None:
    app, begun = Consumer(), asyncio.Event()

    @app.handler("t", lease=1)
    async def handle(context: Context, _payload: object) -> None:
        begun.set()
        if context.attempt == 1:
            await asyncio.Event().wait()

    (task_id,) = make_tasks(database_url, type="t", max_attempts=1)
    async with (
        Proxy.before(database_url) as proxy,
        working(app, proxy.through(database_url), reports),
    ):
        await begun.wait()
        proxy.refuse()
        proxy.cut()
        await reports.some(LeaseLost)
        await proxy.admit()
        await reports.settled(task_id)

    assert task_of(database_url, task_id).used == 1


async def test_a_keeper_whose_connection_broke_beats_on_over_another(
    database_url: str, reports: Reports
) -> None:
    app, gate = gated(lease=6)

    (task_id,) = make_tasks(database_url, type="t")
    async with working(app, database_url, reports):
        await gate.begun.wait()
        for _ in range(2):
            known = len(reports.of(DatabaseFound))
            rows(
                database_url,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'taskbell keeper' AND datname = current_database()",
            )
            await reports.some(
                DatabaseFound, lambda each: each.purpose == "keeper", count=known + 1
            )
        gate.go_on.set()
        await reports.settled(task_id)

    assert any(each.purpose == "keeper" for each in reports.of(DatabaseLost))
    assert task_of(database_url, task_id).attempt_count == 1


async def test_a_database_that_takes_no_writes_is_away_until_it_takes_them(
    database_url: str, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, app = Looks(monkeypatch), Consumer()

    @app.handler("t")
    async def noop(_context: Context, _payload: object) -> None:
        return None

    async with working(app, database_url, reports):
        with read_only(database_url):
            end_sessions(database_url)
            await reports.some(DatabaseLost, lambda each: each.purpose == "claim")
            await looks.by("claim", looks.count("claim") + 3)
            found = [each for each in reports.of(DatabaseFound) if each.purpose == "claim"]
        (task_id,) = make_tasks(database_url, type="t")
        await reports.settled(task_id)

    assert found == []
    assert [each.purpose for each in reports.of(DatabaseLost)].count("claim") == 1


async def test_a_settlement_whose_answer_was_lost_resolves_to_the_truth(
    database_url: str, reports: Reports
) -> None:
    app = Consumer()

    @app.handler("plain")
    async def plain(_context: Context, _payload: object) -> None:
        return

    @app.handler("failing", retry=Fixed(delay=3600))
    async def failing(_context: Context, _payload: object) -> None:
        raise ValueError("no")

    async with Proxy.before(database_url) as proxy:
        for kind, status, sent in (
            ("plain", "COMPLETED", b"SET status = 'COMPLETED', finished_at"),
            ("failing", "RETRYING", b"INSERT INTO taskbell.dead_letter"),
        ):
            proxy.lose_reply(sent)
            (task_id,) = make_tasks(database_url, type=kind)
            async with working(app, proxy.through(database_url), reports):
                await reports.settled(task_id, status=status)
            assert proxy.reply_lost.is_set()
            proxy.reply_lost.clear()
            assert task_of(database_url, task_id).used == 1

    assert reports.of(LeaseLost) == []


async def test_a_claim_whose_answer_was_lost_is_taken_up_and_runs_once(
    database_url: str, reports: Reports
) -> None:
    app, attempts = Consumer(), list[int]()

    @app.handler("t")
    async def handle(context: Context, _payload: object) -> None:
        attempts.append(context.attempt)

    (task_id,) = make_tasks(database_url, type="t", max_attempts=1)
    async with Proxy.before(database_url) as proxy:
        proxy.lose_reply(b"INSERT INTO taskbell.lease")
        async with working(app, proxy.through(database_url), reports):
            await reports.settled(task_id)
        assert proxy.reply_lost.is_set()

    assert attempts == [1]


async def test_a_statement_timeout_on_the_role_burns_no_try(
    database_url: str, reports: Reports
) -> None:
    app, begun = Consumer(), asyncio.Event()
    name = urlsplit(database_url).path.lstrip("/")
    rows(database_url, f'ALTER DATABASE "{name}" SET statement_timeout = 200')

    @app.handler("t")
    async def handle(_context: Context, _payload: object) -> str:
        begun.set()
        return "done"

    (task_id,) = make_tasks(database_url, type="t", max_attempts=1)
    with psycopg.connect(conninfo(database_url)) as blocker:
        blocker.execute("LOCK TABLE taskbell.task IN EXCLUSIVE MODE")
        async with working(app, database_url, reports):
            await reports.some(DatabaseLost, lambda each: each.purpose == "claim")
            blocker.rollback()
            await begun.wait()
            blocker.execute("LOCK TABLE taskbell.lease IN ACCESS EXCLUSIVE MODE")
            lost = reports.of(DatabaseLost)
            await reports.some(DatabaseLost, count=len(lost) + 1)
            blocker.rollback()
            await reports.settled(task_id)

    assert task_of(database_url, task_id).used == 1
