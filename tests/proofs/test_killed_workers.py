"""A worker that is killed in mid-task loses nothing, and what it held runs elsewhere soon after.

Not before the timeout: until then nobody can know that it is dead. All instants are the database's.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fleet import Fleet, open_fleet
from support.practice import LEASE
from support.proof import Proof
from support.rabbitmq import Vhost
from support.referee import Referee

VICTIMS = ("victim-1", "victim-2")
HELD = 4

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(params=["with RabbitMQ", "brokerless"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path, database_url: str) -> Iterator[Fleet]:
    """Victims that hold tasks, and nobody else yet."""
    vhost: Vhost | None = None
    if request.param == "with RabbitMQ":
        vhost = request.getfixturevalue("vhost")
    yield from open_fleet(tmp_path, database_url, vhost.url if vhost else None)


def test_the_tasks_of_a_killed_worker_start_elsewhere_within_1_s_after_their_timeout(
    fleet: Fleet, referee: Referee, proof: Proof, promptly: float
) -> None:
    """SIGKILL for workers with tasks in hand; Postgres notes when leases end, handlers begin."""
    task_ids = fleet.enqueue(len(VICTIMS) * HELD, seconds=60, task_type="hold")
    for victim in VICTIMS:
        fleet.launch(victim, "taskbell.consumer", "support.practice:app", "--slots", str(HELD))
    if fleet.amqp_url is not None:
        fleet.launch("relay", "taskbell.relay")
    fleet.wait_for_runs(len(task_ids))
    fleet.start_consumer("heir", "support.practice")
    fleet.wait_for_reapers(len(VICTIMS) + 1 + (fleet.amqp_url is not None))

    for victim in VICTIMS:
        fleet.kill(victim)
    fleet.wait_until_drained()

    verdict = referee.verdict(task_ids)
    assert verdict.violations == []
    assert verdict.reaped == verdict.settlements == len(task_ids)
    delays = [each.started for each in referee.delays()]
    proof(f"{min(delays):.2f} to {max(delays):.2f} s after a timeout of {LEASE} s; none was lost")
    assert min(delays) > 0
    assert max(delays) <= promptly
