"""A task that always fails, or kills its worker, holds up nobody and is dead after its tries."""

import signal
from functools import partial

import pytest

from support.fleet import Fleet
from support.practice import LEASE, POISON_DELAY
from support.proof import Proof
from support.referee import Referee
from support.waiting import wait_until

TRIES = 3
BEHIND = 100
# It queues for the one slot behind those that were due before it, however slow this machine is.
LATEST = 10.0
GAPS = """
SELECT CAST(extract(epoch FROM run.at - failure.failed_at) AS float8) AS seconds
FROM taskbell.failure JOIN acceptance.run
     ON run.task_id = failure.task_id AND run.attempt = failure.attempt + 1
ORDER BY failure.attempt
"""
HEALTHY = """
SELECT count(*) FILTER (WHERE healthy.finished_at < second.at) AS meanwhile,
       count(*) FILTER (WHERE healthy.finished_at < dead.failed_at) AS before_its_death
FROM taskbell.task healthy, acceptance.run second, taskbell.dead_letter dead
WHERE healthy.type = 'hold' AND second.task_id = dead.task_id AND second.attempt = 2
"""

pytestmark = pytest.mark.timeout(600)


def test_a_poison_task_backs_off_while_the_100_behind_it_complete(
    fleet: Fleet, referee: Referee, proof: Proof
) -> None:
    """One task always fails; Postgres notes when it was tried and when the others were done."""
    poison = fleet.enqueue(1, task_type="poison", tries=TRIES)
    healthy = fleet.enqueue(BEHIND, task_type="hold")
    fleet.start_consumer("consumer", "support.practice", slots=1)

    fleet.wait_until_drained()

    verdict = referee.verdict(poison + healthy)
    assert verdict.violations == []
    assert (verdict.attempts, verdict.settlements) == (BEHIND + TRIES, BEHIND + TRIES)
    gaps = [row.seconds for row in fleet.rows(GAPS)]
    (found,) = fleet.rows(HEALTHY)
    spaced = ", ".join(f"{gap:.2f}" for gap in gaps)
    proof(
        f"{found.meanwhile} of {BEHIND} done before its second try, in 1 slot;"
        f" tries {spaced} s apart by a policy of {POISON_DELAY} s; dead after {TRIES}"
    )
    assert found.before_its_death == BEHIND
    assert len(gaps) == TRIES - 1
    assert all(POISON_DELAY <= gap <= POISON_DELAY + LATEST for gap in gaps)
    assert fleet.rows("SELECT status FROM taskbell.task WHERE id = %s", *poison) == [("FAILED",)]


def gone(fleet: Fleet, name: str) -> bool:
    return fleet.ended(name) == -signal.SIGKILL


def test_a_task_that_kills_every_worker_is_dead_after_its_tries(
    fleet: Fleet, referee: Referee, proof: Proof
) -> None:
    """Its handler kills the worker; tries are counted at the claim, so these count, too."""
    tries = 2
    poison = fleet.enqueue(1, task_type="assassin", tries=tries)
    for victim in range(tries):
        name = f"victim-{victim}"
        fleet.launch(name, "taskbell.consumer", "support.practice:app", "--slots=1")
        wait_until("it kills its worker", partial(gone, fleet, name))
    fleet.start_consumer("undertaker", "support.practice")  # somebody must notice the last death
    fleet.wait_until_drained()

    verdict = referee.verdict(poison)
    assert verdict.violations == []
    assert (verdict.attempts, verdict.reaped, verdict.settlements) == (tries, tries, 0)
    letters = fleet.rows("SELECT error_class, attempt_count FROM taskbell.dead_letter")
    assert letters == [("LeaseExpired", tries)]
    proof(f"{tries} workers killed, {LEASE} s apart at least, then a dead letter")
