"""Claimers never share a task and never wait for one another; two usual ways to claim do."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.claiming import connected, look, race, skipping, take, waiting
from support.factories import make_tasks
from support.proof import Proof
from support.waiting import wait_until

QUEUE = "default"
COUNT = 100


def test_two_pollers_of_a_hundred_tasks_never_get_one_id_twice(
    database_url: str, proof: Proof
) -> None:
    """Two pollers empty a queue at once, and the ids that each of them got are counted."""
    task_ids = make_tasks(database_url, COUNT)

    found = race(database_url, QUEUE, skipping, claimers=2, limit=3, hold=0.001, meet=True)

    assert sorted(found.all) == sorted(task_ids)
    first, second = map(len, found.taken)
    assert min(first, second) > 0
    proof(f"{first} and {second} of {COUNT}, 0 twice")


@pytest.mark.parametrize("commit_first", [True, False], ids=["commits first", "commits last"])
def test_what_one_poller_has_locked_the_other_skips_and_has_the_rest_at_once(
    database_url: str, proof: Proof, *, commit_first: bool
) -> None:
    """A claim stays uncommitted while another poller claims: it has all the others at once."""
    task_ids = make_tasks(database_url, COUNT)
    with (
        connected(database_url, autocommit=False) as first,
        connected(database_url, autocommit=False) as second,
    ):
        ours = skipping(first, QUEUE, 10)
        started = time.monotonic()
        theirs = skipping(second, QUEUE, COUNT)
        milliseconds = 1000 * (time.monotonic() - started)
        for connection in (first, second) if commit_first else (second, first):
            connection.commit()

    assert len(ours) == 10
    assert sorted(ours + theirs) == sorted(task_ids)
    proof(f"{len(theirs)} others in {milliseconds:.0f} ms while {len(ours)} stayed locked")


def test_a_row_that_a_stranger_locks_costs_nobody_else_anything(
    database_url: str, proof: Proof
) -> None:
    """Somebody else locks an entry: the rest is claimed at once, that one as soon as it is free."""
    task_ids = make_tasks(database_url, COUNT)
    lock = "SELECT FROM taskbell.outbox WHERE task_id = %s FOR UPDATE"
    with connected(database_url, autocommit=False) as stranger, connected(database_url) as poller:
        stranger.execute(lock, (task_ids[0],))
        others = skipping(poller, QUEUE, COUNT)
        stranger.rollback()
        rest = skipping(poller, QUEUE, COUNT)

    assert sorted(others) == sorted(task_ids[1:])
    assert rest == task_ids[:1]
    proof(f"{len(others)} at once, the locked one once it was free")


def test_claims_without_skip_locked_wait_for_one_another(database_url: str, proof: Proof) -> None:
    """Our claim without these two words waits in Postgres with tasks free: why it has them."""
    make_tasks(database_url, COUNT)
    with (
        ThreadPoolExecutor(1) as thread,
        connected(database_url, autocommit=False) as first,
        connected(database_url) as second,
        connected(database_url) as observer,
    ):
        waiting(first, QUEUE, 10)
        blocked = thread.submit(waiting, second, QUEUE, 10)
        event = wait_until(
            "the second poller waits",
            lambda: observer.execute(
                "SELECT wait_event_type || ': ' || wait_event FROM pg_stat_activity"
                " WHERE pid = %s AND wait_event_type = 'Lock'",
                (second.info.backend_pid,),
            ).fetchone(),
        )
        idle = not blocked.done()
        first.commit()
        blocked.result()

    assert idle
    assert event is not None
    proof(f"the second was seen in {event[0]} with 90 tasks free")


def test_claims_that_select_and_then_update_take_tasks_twice(
    database_url: str, proof: Proof
) -> None:
    """The usual two steps, taken in turns on two connections: why our claim is one statement."""
    make_tasks(database_url, COUNT)
    with connected(database_url) as first, connected(database_url) as second:
        seen, seen_too = look(first, QUEUE, 10), look(second, QUEUE, 10)
        ours, theirs = take(first, seen), take(second, seen_too)

    twice = set(ours) & set(theirs)
    assert len(twice) == 10
    proof(f"{len(twice)} of 10 twice")
