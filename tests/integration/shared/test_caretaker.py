"""The duties of a fleet: one pace for all, a small share of the time, and none stops another."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import pytest

from support.factories import make_tasks
from support.read_only import Looks, end_sessions, read_only
from support.waiting import PATIENCE
from support.workers import Reports, rows
from taskbell.shared.database import Database, DedicatedConnection
from taskbell.shared.events import (
    DatabaseFound,
    DatabaseLost,
    Event,
    LeasesReaped,
    StatementFailed,
)
from taskbell.shared.maintenance.caretaker import Caretaker
from taskbell.shared.maintenance.reap import Reap
from taskbell.shared.maintenance.steady import Steady
from taskbell.shared.statement import Statement
from taskbell.shared.statements import claim

Hire = Callable[..., Caretaker]


class Counted(Steady):
    """A duty that counts its runs and runs one statement."""

    name: ClassVar[str] = "counted"

    def __init__(self, interval: float = 3600.0, statement: str = "SELECT 1") -> None:
        self.interval = interval
        self.runs = 0
        self._statement = Statement(statement)

    async def run_once(self, connection: DedicatedConnection) -> Event | Sequence[Event] | None:
        self.runs += 1
        await connection.run(self._statement)
        return None


class Failing(Counted):
    name: ClassVar[str] = "failing"


@pytest.fixture
async def hire(database_url: str, reports: Reports) -> AsyncIterator[Hire]:
    hired: list[Caretaker] = []

    def hire(*duties: Any) -> Caretaker:
        hired.append(Caretaker(Database(database_url), reports, keep_days=7, duties=duties))
        return hired[-1]

    yield hire
    for caretaker in hired:
        await caretaker.close()


async def test_two_caretakers_keep_one_pace(hire: Hire) -> None:
    duty = Counted()

    for caretaker in (hire(duty), hire(duty)):
        await caretaker.run_once()

    assert duty.runs == 1


async def test_the_fleet_rests_twenty_times_as_long_as_a_duty_took(
    hire: Hire, database_url: str
) -> None:
    duty = Counted(0.01, "SELECT pg_sleep(0.2)")

    for caretaker in (hire(duty), hire(duty)):
        await caretaker.run_once()

    assert duty.runs == 1
    ((rest,),) = rows(
        database_url, "SELECT extract(epoch FROM ran_at - clock_timestamp()) FROM taskbell.duty"
    )
    assert 3.0 < rest < 30.0


class Brief(Counted):
    """Is due again sooner than its interval."""

    async def pause(self, connection: DedicatedConnection) -> float:
        del connection
        return 0.0


async def test_a_duty_may_be_due_sooner_for_the_whole_fleet(hire: Hire, database_url: str) -> None:
    duty = Brief(3600.0)

    await hire(duty).run_once()

    ((due_in,),) = rows(
        database_url,
        "SELECT extract(epoch FROM ran_at - clock_timestamp()) + 3600 FROM taskbell.duty",
    )
    assert due_in < 600  # twenty times what it took


async def test_a_rest_after_somebody_else_took_the_duty_changes_nothing(
    hire: Hire, database_url: str
) -> None:
    taken_again = "UPDATE taskbell.duty SET ran_at = ran_at + interval '1 s' RETURNING name"
    duty = Brief(3600.0, taken_again)

    await hire(duty).run_once()

    ((rested,),) = rows(
        database_url, "SELECT ran_at < clock_timestamp() - interval '600 s' FROM taskbell.duty"
    )
    assert not rested


async def test_a_duty_that_fails_stops_no_other_and_is_told_once(
    hire: Hire, database_url: str, reports: Reports
) -> None:
    failing, duty = Failing(0.0, "SELECT 1 / 0"), Counted(0.0)
    caretaker = hire(failing, duty)

    async with asyncio.timeout(PATIENCE):
        while min(failing.runs, duty.runs) < 2:
            await asyncio.to_thread(rows, database_url, _RESTED)
            await caretaker.run_once()

    assert [each.purpose for each in reports.of(StatementFailed)] == ["failing"]


async def test_after_every_connect_holders_may_beat_before_anybody_reaps(
    hire: Hire, database_url: str, reports: Reports
) -> None:
    now = asyncio.get_running_loop().time
    caretaker = hire(Reap(interval=0.01))
    await lose_lease(database_url)
    started = now()
    running = asyncio.ensure_future(caretaker.run())
    try:
        await reports.some(LeasesReaped)
        first = now() - started
        await lose_lease(database_url)
        rows(database_url, _TERMINATE)
        await reports.some(DatabaseFound)
        found = now()
        await reports.some(LeasesReaped, count=2)
        again = now() - found
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    assert first >= 2.0
    assert again >= 1.9
    assert len(reports.of(DatabaseLost)) == len(reports.of(DatabaseFound)) == 1


async def test_a_database_that_takes_no_writes_is_away_until_it_takes_them(
    hire: Hire, database_url: str, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, duty = Looks(monkeypatch), Counted(0.01)
    caretaker = hire(duty)
    running = asyncio.ensure_future(caretaker.run())
    try:
        with read_only(database_url):
            end_sessions(database_url)
            await reports.some(DatabaseLost)
            await looks.by("maintenance", looks.count("maintenance") + 3)
            found_meanwhile = reports.of(DatabaseFound)
        await reports.some(DatabaseFound)
        ran = duty.runs
        while duty.runs == ran:
            await asyncio.to_thread(rows, database_url, _RESTED)
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    assert found_meanwhile == []
    assert len(reports.of(DatabaseLost)) == len(reports.of(DatabaseFound)) == 1


@pytest.mark.parametrize(
    ("left", "least", "most"),
    [(None, 1.0, 1.0), (30.0, 1.0, 1.0), (0.9, 0.2, 0.9), (-5.0, 0.2, 0.2)],
)
async def test_the_next_look_for_expired_leases_is_when_the_first_may_expire(
    database_url: str, left: float | None, least: float, most: float
) -> None:
    if left is not None:
        await lose_lease(database_url)
        rows(
            database_url,
            "UPDATE taskbell.lease SET expires_at = clock_timestamp() + make_interval(secs => %s)"
            " RETURNING 1",
            left,
        )
    connection = DedicatedConnection(Database(database_url), "test")

    assert least <= await Reap().pause(connection) <= most

    await connection.close()


_RESTED = "UPDATE taskbell.duty SET ran_at = ran_at - interval '1 hour' RETURNING 1"
_TERMINATE = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE application_name = 'taskbell maintenance' AND datname = current_database()"
)


async def lose_lease(url: str) -> None:
    """Leave an expired lease of a worker that is gone."""
    make_tasks(url)
    connection = DedicatedConnection(Database(url), "test")
    await connection.run(
        claim.BY_QUEUE,
        worker_id="gone",
        lease_by_type="{}",
        lease=-1.0,
        limit=1,
        queue="default",
        levels=[5],
        floors=["1970-01-01T00:00:00Z"],
    )
    await connection.close()
