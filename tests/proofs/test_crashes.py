"""SIGKILL at every point between two writes, under load: nothing is lost, no effect happens twice.

A doomed role works beside a healthy relay and a healthy consumer while tasks keep coming, until it
kills itself at its point. The healthy ones live through all of it.
"""

import signal
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest

from support import practice
from support.fleet import Fleet, open_fleet
from support.proof import Proof
from support.rabbitmq import Vhost
from support.referee import Referee
from support.waiting import wait_until
from taskbell.shared import points
from taskbell.shared.database import conninfo

CONSUMER_POINTS = (
    points.BEFORE_CLAIM,
    points.AFTER_CLAIM,
    practice.IN_HANDLER,
    practice.DURING_DEDUP_INSERT,
    practice.BEFORE_EFFECT_COMMIT,
    practice.AFTER_EFFECT_COMMIT,
    points.BEFORE_SETTLE,
    points.AFTER_SETTLE,
)
RELAY_POINTS = (points.BEFORE_MARK, points.BEFORE_PUBLISH, points.AFTER_PUBLISH)
AFTER_THE_EFFECT = {practice.AFTER_EFFECT_COMMIT.point, points.BEFORE_SETTLE.point}
BATCH = 10
LEAST = 60
SECONDS = 0.05
SLOTS = 4
TIMES = 3
EFFECTS = """
SELECT count(*) AS all, count(DISTINCT e.task_id) AS tasks,
       count(*) FILTER (WHERE e.attempt < t.attempt_count) AS spared
FROM acceptance.effect e JOIN taskbell.task t ON t.id = e.task_id WHERE e.task_id = ANY (%s)
"""
# A commit of whoever is called doomed waits for who holds the gate.
GATE = """
CREATE FUNCTION acceptance.pass() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(17);
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER pass AFTER UPDATE OF announced_at ON taskbell.outbox
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (current_setting('test.doomed', true) = 'yes') EXECUTE FUNCTION acceptance.pass();
"""
AT_THE_GATE = """
SELECT l.pid, a.query FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.objid = 17 AND NOT l.granted
  AND a.datname = current_database()
"""
STATUSES = "SELECT DISTINCT status FROM taskbell.task WHERE id = ANY (%s)"

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def fleet(
    tmp_path_factory: pytest.TempPathFactory, lasting_database_url: str, lasting_vhost: Vhost
) -> Iterator[Fleet]:
    """A healthy relay and a healthy consumer."""
    directory = tmp_path_factory.mktemp("crashes")
    for fleet in open_fleet(directory, lasting_database_url, lasting_vhost.url):
        practice.furnish(fleet.database_url)
        with psycopg.connect(conninfo(fleet.database_url)) as connection:
            connection.execute(GATE.encode())
        fleet.launch("relay", "taskbell.relay")
        fleet.start_consumer("consumer", "support.practice", SLOTS)
        fleet.wait_for_event("relay", "role_started")
        yield fleet


@pytest.fixture(scope="module")
def referee(fleet: Fleet) -> Referee:
    """The referee of all crashes."""
    return Referee(fleet.database_url)


@pytest.fixture(autouse=True)
def no_earlier_doom(fleet: Fleet) -> None:
    """The log says when this test's doomed role is up, not an earlier one's."""
    fleet.forget("doomed")


def enqueue_batch(fleet: Fleet) -> list[UUID]:
    """Enqueue some more, as fast as two consumers can run them."""
    time.sleep(BATCH * SECONDS / (2 * SLOTS))
    return fleet.enqueue(BATCH, SECONDS, task_type="charge")


def crash(fleet: Fleet, role: str, point: str) -> list[UUID]:
    """Enqueue batch after batch until the doomed role is gone; returns all ids."""
    fleet.start("doomed", "support.doomed", role, point, f"--times={TIMES}", f"--slots={SLOTS}")
    enqueued: list[UUID] = []

    def gone() -> bool:
        if fleet.ended("doomed") is None or len(enqueued) < LEAST:
            enqueued.extend(enqueue_batch(fleet))
            return False
        return True

    wait_until("the doomed role reaches its point", gone)
    assert fleet.ended("doomed") == -signal.SIGKILL, fleet.tail("doomed")
    return enqueued


def judge(fleet: Fleet, referee: Referee, task_ids: list[UUID]) -> tuple[str, int]:
    """Nothing lost, nothing twice, no rule broken; returns the figure, and how often a key told."""
    fleet.wait_until_drained()
    verdict, count = referee.verdict(task_ids), len(task_ids)
    assert verdict.violations == []
    assert (verdict.tasks, verdict.settlements) == (count, count)
    assert verdict.attempts == count + verdict.reaped
    assert fleet.rows(STATUSES, task_ids) == [("COMPLETED",)]
    (effects,) = fleet.rows(EFFECTS, task_ids)
    assert (effects.all, effects.tasks) == (count, count)
    figure = f"{count} tasks, {verdict.reaped} begun again, 0 lost, 0 effects twice"
    return figure, effects.spared


@pytest.mark.parametrize("point", [each.point for each in CONSUMER_POINTS])
def test_a_consumer_that_dies_loses_and_repeats_nothing(
    point: str, fleet: Fleet, referee: Referee, proof: Proof
) -> None:
    """SIGKILL at this point under load; as its leases end a healthy consumer does the rest."""
    task_ids = crash(fleet, "consumer", point)

    figure, spared = judge(fleet, referee, task_ids)

    proof(figure)
    if point in AFTER_THE_EFFECT:  # begun again although it was done: the dedup key told
        assert spared > 0


@pytest.mark.parametrize("point", [each.point for each in RELAY_POINTS])
def test_a_relay_that_dies_loses_and_repeats_nothing(
    point: str, fleet: Fleet, referee: Referee, proof: Proof
) -> None:
    """SIGKILL at this point under load; a healthy relay announces what this one did not."""
    task_ids = crash(fleet, "relay", point)

    figure, _ = judge(fleet, referee, task_ids)

    proof(figure)


@pytest.mark.parametrize("committed", [True, False], ids=["it commits", "it is rolled back"])
def test_a_relay_that_dies_before_the_commit_of_its_mark_loses_and_repeats_nothing(
    fleet: Fleet, referee: Referee, proof: Proof, *, committed: bool
) -> None:
    """A trigger holds the mark's commit until the relay is dead, and then lets it pass or fail.

    The entries are marked and nobody was told, or locked and not marked: both run all the same.
    """
    fleet.roles_url = f"{fleet.database_url}?options=-ctest.doomed%3Dyes"
    fleet.start("doomed", "taskbell.relay")
    fleet.roles_url = fleet.database_url
    task_ids: list[UUID] = []

    def waiting() -> list[Any]:
        task_ids.extend(enqueue_batch(fleet))
        return fleet.rows(AT_THE_GATE)

    with psycopg.connect(conninfo(fleet.database_url), autocommit=True) as gate:
        gate.execute("SELECT pg_advisory_lock(17)")
        (held,) = wait_until("the doomed relay commits a mark", waiting, 60.0)
        fleet.kill("doomed")
        if not committed:
            gate.execute("SELECT pg_terminate_backend(%s)", (held.pid,))
        gate.execute("SELECT pg_advisory_unlock(17)")

    figure, _ = judge(fleet, referee, task_ids)

    assert "announced_at" in held.query
    proof(figure)
