"""An effect is committed once for a completed task and never otherwise, wherever its worker dies.

The table of effects has no unique constraint: a second effect, or one of an attempt that did not
complete its task, would be seen.
"""

import signal

import psycopg
import pytest

from support import effects, practice
from support.fleet import Fleet
from support.practice import LEASE
from support.proof import Proof
from support.referee import Referee
from support.waiting import wait_until
from taskbell.producer import NewTask, Producer
from taskbell.shared.database import conninfo
from taskbell.shared.points import BEFORE_SETTLE

POINTS = (
    practice.DURING_DEDUP_INSERT,
    effects.AFTER_EFFECT,
    practice.BEFORE_EFFECT_COMMIT,
    practice.AFTER_EFFECT_COMMIT,
)
SLOTS = 4
TASKS = 12
CLONES = 20
COUNTED = """
SELECT count(*) AS all, count(DISTINCT e.task_id) AS tasks,
       count(*) FILTER (WHERE e.attempt < t.attempt_count) AS earlier
FROM acceptance.effect e JOIN taskbell.task t ON t.id = e.task_id
"""
VISIBLE = """
SELECT (SELECT count(*) FROM acceptance.effect) AS effects,
       (SELECT count(*) FROM taskbell.effect) AS keys,
       (SELECT count(*) FROM taskbell.task WHERE status = 'COMPLETED') AS completed
"""
SLEPT = "SELECT clock_timestamp() - min(at) >= make_interval(secs => {}) FROM acceptance.run"

pytestmark = pytest.mark.timeout(600)


def counted(fleet: Fleet) -> tuple[int, int, int]:
    """All effects, the tasks that have one, and how many come from an attempt before the last."""
    (found,) = fleet.rows(COUNTED)
    return found.all, found.tasks, found.earlier


def doom(fleet: Fleet, point: str, *how: str) -> None:
    fleet.start("doomed", "support.doomed", "consumer", point, f"--slots={SLOTS}", *how)


@pytest.mark.parametrize("point", [each.point for each in POINTS])
def test_a_crash_around_an_effect_leaves_all_of_it_or_nothing(
    point: str, fleet: Fleet, referee: Referee, proof: Proof
) -> None:
    """SIGKILL at this point of an effect's transaction; rows are counted then and at the end."""
    doom(fleet, point)
    task_ids = fleet.enqueue(TASKS, task_type="deliver")
    wait_until("the doomed one is gone", lambda: fleet.ended("doomed") == -signal.SIGKILL)
    (visible,) = fleet.rows(VISIBLE)  # others in its slots may have committed, too
    fleet.start_consumer("heir", "support.effects", SLOTS)
    fleet.wait_until_drained()

    verdict = referee.verdict(task_ids)
    assert verdict.violations == []
    assert verdict.settlements == TASKS
    assert len(set(visible)) == 1  # as many effects as keys as completed tasks
    assert (visible.effects > 0) == (point == practice.AFTER_EFFECT_COMMIT.point)
    # Also none by an attempt that did not complete its task.
    assert counted(fleet) == (TASKS, TASKS, 0)
    proof(f"{visible.effects} visible after the crash; {TASKS} tasks, {TASKS} effects in the end")


@pytest.mark.parametrize("point", [effects.AFTER_EFFECT.point, practice.BEFORE_EFFECT_COMMIT.point])
def test_a_commit_that_comes_three_timeouts_late_is_refused(
    point: str, fleet: Fleet, referee: Referee, proof: Proof
) -> None:
    """SIGSTOP at this point, SIGCONT once another worker has done it: its commit is refused."""
    doom(fleet, point, "--by=SIGSTOP")
    task_ids = fleet.enqueue(1, task_type="deliver")
    fleet.wait_until_frozen("doomed")
    fleet.start_consumer("heir", "support.effects", SLOTS)
    fleet.wait_until_drained()
    asleep = SLEPT.format(3 * LEASE)
    wait_until("it slept for three leases", lambda: fleet.rows(asleep)[0][0])
    fleet.signal("doomed", signal.SIGCONT)
    stopped = fleet.stop("doomed")  # it has said by then what it had to say

    verdict = referee.verdict(task_ids)
    assert stopped == 0
    assert verdict.violations == []
    assert (verdict.attempts, verdict.reaped, verdict.settlements) == (2, 1, 1)
    assert counted(fleet) == (1, 1, 0)
    proof(f"frozen for {3 * LEASE} s; run elsewhere, 1 settlement accepted, 1 effect")


def test_tasks_with_one_key_have_one_effect_however_many_run_at_once(
    fleet: Fleet, referee: Referee, proof: Proof
) -> None:
    """Two workers run tasks that name one business key; the table itself would take repeats."""
    with psycopg.connect(conninfo(fleet.database_url)) as connection:
        clones = [NewTask("deliver", {"key": "order-17"}) for _ in range(CLONES)]
        enqueued = Producer().enqueue_many(connection, clones)
    for name in ("consumer-1", "consumer-2"):
        fleet.launch(name, "taskbell.consumer", "support.effects:app")
    fleet.wait_until_drained()

    verdict = referee.verdict([each.task_id for each in enqueued])
    assert verdict.violations == []
    assert (verdict.attempts, verdict.settlements) == (CLONES, CLONES)
    assert counted(fleet) == (1, 1, 0)
    proof(f"{CLONES} tasks completed, 1 effect")


@pytest.mark.parametrize("point", [practice.AFTER_EFFECT_COMMIT.point, BEFORE_SETTLE.point])
def test_a_task_that_is_processed_twice_with_its_key_has_one_effect_in_another_database(
    point: str, fleet: Fleet, referee: Referee, proof: Proof
) -> None:
    """SIGKILL between the commit there and the settlement here: the key tells the next worker."""
    doom(fleet, point)
    task_ids = fleet.enqueue(TASKS, task_type="deliver_elsewhere")
    wait_until("the doomed one is gone", lambda: fleet.ended("doomed") == -signal.SIGKILL)
    fleet.start_consumer("heir", "support.effects", SLOTS)
    fleet.wait_until_drained()

    verdict = referee.verdict(task_ids)
    assert verdict.violations == []
    found = counted(fleet)
    assert found[:2] == (TASKS, TASKS)
    assert found[2] > 0  # done by the one that died, and seen by the next
    proof(f"{verdict.attempts - TASKS} of {TASKS} processed twice, {TASKS} effects")
