"""Heartbeats keep a task as long as it runs; without them it is somebody else's a timeout later."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from support.fleet import Fleet
from support.practice import CAREFUL_LEASE, LEASE
from support.proof import Proof
from support.proxy import Proxy
from support.referee import Referee
from support.waiting import wait_until

EXPIRES_AT = "SELECT expires_at FROM taskbell.lease"

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("task_type", ["hold", "hold_regardless"], ids=["on the loop", "a thread"])
def test_a_task_of_three_timeouts_is_never_redelivered(
    task_type: str, fleet: Fleet, referee: Referee, proof: Proof
) -> None:
    """A handler runs for three timeouts beside an idle worker that would take it."""
    for name in ("consumer-1", "consumer-2"):
        fleet.launch(name, "taskbell.consumer", "support.practice:app")
    task_ids = fleet.enqueue(1, seconds=3 * LEASE, task_type=task_type)

    beats: set[object] = set()

    def ended() -> bool:
        beats.update(fleet.rows(EXPIRES_AT))
        return fleet.ask("SELECT count(*) FROM taskbell.task WHERE status = 'COMPLETED'") == 1

    wait_until("the long task completes", ended)

    assert fleet.runs() == 1
    assert referee.verdict(task_ids).violations == []
    (row,) = fleet.rows("SELECT finished_at - started_at AS took FROM taskbell.task")
    took = row.took.total_seconds()
    proof(f"ran {took:.1f} s on a timeout of {LEASE} s, {len(beats) - 1} heartbeats, 1 start")
    assert took >= 3 * LEASE


@pytest.fixture
async def keeperless(fleet: Fleet, referee: Referee, database_url: str) -> AsyncIterator[Proxy]:
    """A consumer whose heartbeats, and nothing else, can be silenced; it gets all tasks."""
    del referee  # it is there before the first task
    async with Proxy.before(database_url, only=b"taskbell keeper") as proxy:
        fleet.roles_url = proxy.through(database_url)
        await asyncio.to_thread(fleet.start_consumer, "victim", "support.practice")
        fleet.roles_url = database_url
        yield proxy
        proxy.resume()
        await asyncio.to_thread(fleet.close)


def hold_until_silenced(fleet: Fleet, proxy: Proxy, task_type: str) -> list[UUID]:
    """The victim begins a long task, somebody else is there, and the heartbeats end."""
    task_ids = fleet.enqueue(1, seconds=60, task_type=task_type)
    fleet.wait_for_runs(1)
    fleet.start_consumer("heir", "support.practice")
    proxy.silence()
    fleet.wait_until_drained()
    return task_ids


async def test_a_task_whose_heartbeats_are_cut_off_is_redelivered_a_timeout_later(
    fleet: Fleet, referee: Referee, keeperless: Proxy, proof: Proof, promptly: float
) -> None:
    """A proxy swallows the heartbeats and nothing else; the handler runs on in its thread."""
    task_ids = await asyncio.to_thread(hold_until_silenced, fleet, keeperless, "hold_regardless")
    # The thread ends long after; what it has to say comes too late.
    await asyncio.to_thread(fleet.wait_for_word, "victim", '"noticed_by": "settlement"')

    verdict = referee.verdict(task_ids)
    assert verdict.violations == []
    assert (verdict.attempts, verdict.reaped, verdict.settlements) == (2, 1, 1)
    (delay,) = referee.delays()
    proof(f"{delay.started:.2f} s after a timeout of {LEASE} s, 1 settlement accepted")
    assert 0 < delay.reaped <= promptly


async def test_a_handler_whose_heartbeats_are_cut_off_ends_before_anybody_may_take_its_task(
    fleet: Fleet, referee: Referee, keeperless: Proxy, proof: Proof
) -> None:
    """The same on the event loop, where a worker can stop its handler before the lease ends."""
    task_ids = await asyncio.to_thread(hold_until_silenced, fleet, keeperless, "hold_carefully")

    verdict = referee.verdict(task_ids)
    assert verdict.violations == []
    assert (verdict.attempts, verdict.reaped, verdict.settlements) == (2, 0, 2)
    first = next(note for note in referee.notes(task_ids) if note.what == "ended")
    left = (first.expires_at - first.at).total_seconds()
    proof(f"given back {left:.2f} s before its timeout of {CAREFUL_LEASE} s")
    assert left > 0
