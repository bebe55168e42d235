"""A worker that stands still for longer than its timeout wakes up to find that it holds nothing."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fleet import Fleet, open_fleet
from support.practice import LEASE
from support.proof import Proof
from support.rabbitmq import Vhost
from support.referee import Referee
from support.waiting import wait_until
from taskbell.shared.points import BEFORE_SETTLE

LONG = 3 * LEASE
SINCE_FIRST_RUN = """
SELECT extract(epoch FROM clock_timestamp() - min(at)) >= {} FROM acceptance.run
"""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def fleet(tmp_path: Path, database_url: str, vhost: Vhost) -> Iterator[Fleet]:
    """With RabbitMQ, which does not know that a frozen worker is."""
    yield from open_fleet(tmp_path, database_url, vhost.url)


def sleep_through(fleet: Fleet, name: str) -> None:
    """Wait until three leases have passed and everything has run elsewhere; then wake it."""
    fleet.wait_until_drained()
    asleep = SINCE_FIRST_RUN.format(LONG)
    wait_until("it slept for three leases", lambda: fleet.rows(asleep)[0][0])
    fleet.signal(name, signal.SIGCONT)


def test_a_worker_that_is_frozen_in_mid_task_loses_it_a_timeout_later(
    fleet: Fleet, referee: Referee, proof: Proof, promptly: float
) -> None:
    """SIGSTOP in mid-task, SIGCONT when another worker has long done it."""
    fleet.launch("relay", "taskbell.relay")
    fleet.start_consumer("frozen", "support.practice")
    task_ids = fleet.enqueue(1, seconds=60, task_type="hold")
    fleet.wait_for_runs(1)
    fleet.start_consumer("heir", "support.practice")

    fleet.signal("frozen", signal.SIGSTOP)
    sleep_through(fleet, "frozen")
    fleet.wait_for_event("frozen", "lease_lost")

    verdict = referee.verdict(task_ids)
    assert verdict.violations == []
    assert (verdict.attempts, verdict.reaped, verdict.settlements) == (2, 1, 1)
    (delay,) = referee.delays()
    proof(
        f"available {delay.reaped:.2f} s and started {delay.started:.2f} s after a timeout of"
        f" {LEASE} s, 1 settlement accepted"
    )
    assert delay.reaped > 0
    # RabbitMQ may hand the announcement to the frozen one, which keeps it; then a poll finds it.
    assert delay.started <= promptly


def test_a_settlement_that_comes_three_timeouts_late_is_refused(
    fleet: Fleet, referee: Referee, proof: Proof
) -> None:
    """SIGSTOP between handler and settlement, SIGCONT three timeouts later: it is refused."""
    fleet.launch("relay", "taskbell.relay")
    fleet.start("frozen", "support.doomed", "consumer", BEFORE_SETTLE.point, "--by=SIGSTOP")
    task_ids = fleet.enqueue(1, task_type="charge")

    fleet.wait_until_frozen("frozen")
    assert fleet.ask("SELECT count(*) FROM acceptance.effect") == 1  # its handler has ended
    fleet.start_consumer("heir", "support.practice")
    sleep_through(fleet, "frozen")
    fleet.wait_for_word("frozen", '"noticed_by": "settlement"')

    verdict = referee.verdict(task_ids)
    assert verdict.violations == []
    assert (verdict.attempts, verdict.reaped, verdict.settlements) == (2, 1, 1)
    assert fleet.ask("SELECT count(*) FROM acceptance.effect") == 1
    proof(f"frozen for {LONG} s, refused; run elsewhere, 1 settlement accepted, 1 effect")
