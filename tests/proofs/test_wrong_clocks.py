"""Clocks that are ten minutes wrong change nothing: all instants are the database's.

Relay, workers and a producer have the wrong clock; Postgres and the rest of the test do not.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from support.clocks import clean_up_after, wrong_clock
from support.fleet import Fleet, open_fleet
from support.practice import LONG_LEASE, POISON_DELAY
from support.proof import Proof
from support.rabbitmq import Vhost
from support.referee import Referee
from support.waiting import wait_until

WRONG = 600
LONG = 3 * LONG_LEASE
DELAY = 3.0
# A busy machine is late by seconds, a clock that somebody trusts by ten minutes.
SOON = 30.0
COLUMNS = """
SELECT table_name AS of, column_name AS name FROM information_schema.columns
WHERE table_schema = 'taskbell' AND data_type = 'timestamp with time zone'
"""
STRANGE = """
SELECT {name} AS at FROM taskbell.{of} WHERE {name} NOT BETWEEN %s AND clock_timestamp() + %s
"""
RUNS = """
SELECT t.id, t.type, t.created_at, t.scheduled_at, t.attempt_count, run.attempt, run.at,
       t.finished_at - t.started_at AS took, failure.failed_at
FROM taskbell.task t JOIN acceptance.run ON run.task_id = t.id
LEFT JOIN taskbell.failure ON failure.task_id = t.id AND failure.attempt = run.attempt - 1
"""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(params=[WRONG, -WRONG], ids=["fast", "slow"])
def ahead(request: pytest.FixtureRequest) -> int:
    """By how many seconds the processes' clocks are ahead."""
    return int(request.param)


@pytest.fixture
def fleet(tmp_path: Path, database_url: str, vhost: Vhost, ahead: int) -> Iterator[Fleet]:
    """With a wrong clock each, and RabbitMQ, whose messages carry the relay's time."""
    for fleet in open_fleet(tmp_path, database_url, vhost.url):
        fleet.environment.update(wrong_clock(ahead))
        yield fleet
        fleet.close()
        clean_up_after(fleet.pids)


def now(fleet: Fleet) -> datetime:
    """The database's time."""
    (row,) = fleet.rows("SELECT clock_timestamp() AS now")
    found: datetime = row.now
    return found


def strange_instants(fleet: Fleet, begun: datetime) -> list[str]:
    """What in taskbell's tables is before the test or more than seconds in the future."""
    return [
        f"{column.of}.{column.name}: {row.at}"
        for column in fleet.rows(COLUMNS)
        for row in fleet.rows(STRANGE.format(**column._asdict()), begun, timedelta(seconds=SOON))
    ]


def believed(fleet: Fleet, name: str) -> datetime:
    """What time a process took it to be when it wrote the last line of its log."""
    *_, last = re.findall(r'"timestamp": "([^"]+)"', fleet.tail(name))
    return datetime.fromisoformat(last)


def minted(task_id: UUID) -> datetime:
    """When its producer took it to be made."""
    return datetime.fromtimestamp((task_id.int >> 80) / 1000, UTC)


def lateness(rows: list[Any]) -> dict[str, float]:
    """Seconds between when something was due and when it ran, each by the database."""
    retried = next(row for row in rows if row.failed_at is not None)
    delayed = next(row for row in rows if row.scheduled_at > row.created_at)
    due = delayed.created_at + timedelta(seconds=DELAY)
    return {
        "retried": (retried.at - retried.failed_at).total_seconds() - POISON_DELAY,
        "delayed": (delayed.at - due).total_seconds(),
    }


def furthest_lease(notes: list[Any]) -> float:
    """How long a lease had to go when it was taken or ended: the most unusual of all."""
    left: list[float] = [
        (note.expires_at - note.at).total_seconds() for note in notes if note.expires_at
    ]
    return max(left, key=abs)


def test_a_fleet_whose_clocks_are_10_minutes_wrong_does_everything_on_time(
    ahead: int, fleet: Fleet, referee: Referee, proof: Proof
) -> None:
    """Relay, workers and a producer run with libfaketime; Postgres keeps the right time.

    A task of three timeouts, a retry, a delayed task and one of a worker that is killed all start
    when the database says they are due, and no instant in its tables is off by what the clocks are.
    """
    begun = now(fleet)
    fleet.launch("relay", "taskbell.relay")
    fleet.start_consumer("victim", "support.practice", slots=1)
    task_ids = fleet.enqueue(1, seconds=60, task_type="hold_long")
    fleet.wait_for_runs(1)
    fleet.launch("producer", "support.errand", "hold_long", str(DELAY))
    fleet.start_consumer("heir", "support.practice")
    fleet.wait_for_reapers(3)
    (long,) = fleet.enqueue(1, seconds=LONG, task_type="hold_long")
    task_ids += [long, *fleet.enqueue(1, task_type="poison", tries=2)]
    fleet.wait_for_runs(len(task_ids))
    wait_until("the producer is done", lambda: fleet.ended("producer") == 0)
    strange = strange_instants(fleet, begun)

    fleet.kill("victim")
    fleet.wait_until_drained()

    strange += strange_instants(fleet, begun)
    rows = fleet.rows(RUNS)
    ids = {row.id for row in rows}
    verdict = referee.verdict([*ids])
    assert verdict.violations == []
    assert verdict.tasks == 4
    assert strange == []
    assert furthest_lease(referee.notes([*ids])) == pytest.approx(LONG_LEASE, abs=SOON)
    clocks = [believed(fleet, name) for name in ("relay", "victim", "heir")]
    clocks += [minted(task_id) for task_id in ids.difference(task_ids)]
    wrong = [(each - now(fleet)).total_seconds() for each in clocks]
    assert wrong == pytest.approx([ahead] * 4, abs=WRONG / 2)  # the clocks were as wrong as said
    starts = [row for row in rows if row.id == long]
    assert [row.attempt_count for row in starts] == [1], fleet.tail("heir")
    assert starts[0].took.total_seconds() >= LONG
    late = {"taken over": max(delay.started for delay in referee.delays()), **lateness(rows)}
    assert all(0 <= seconds <= SOON for seconds in late.values()), late
    figures = ", ".join(f"{what} {seconds:.2f} s after" for what, seconds in late.items())
    proof(f"{figures} it was due; {LONG} s on a timeout of {LONG_LEASE} s begun once")
