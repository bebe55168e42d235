"""Order, exclusion and the invariants hold whatever happens at the same time."""

import random
from collections import defaultdict
from itertools import pairwise
from typing import Any

from integration.shared.turmoil import HOLD, KEYS, Turmoil
from support.workers import rows
from taskbell.shared.audit import look_for_neglect
from taskbell.shared.database import DedicatedConnection

DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
FINAL = {"COMPLETED", "FAILED", "CANCELLED"}


async def test_order_exclusion_and_invariants_hold_in_turmoil(
    database_url: str, connection: DedicatedConnection
) -> None:
    seed = random.randrange(2**32)  # noqa: S311 - dice
    turmoil = Turmoil(database_url, seed, tasks_of_a_key=8, seconds=6.0)
    try:
        history = await turmoil.run()

        assert turmoil.findings == []
        assert turmoil.refused == []
        assert await look_for_neglect(connection, 0.0) == []
        assert rows(database_url, DEADLOCKS) == [(0,)]
        partitions = by_partition(history)
        assert set(partitions) == set(KEYS)
        for (queue, _), events in partitions.items():
            never_two_at_once(events)
            a_head_stays_until_it_ended(events)
            in_order(queue, events)
        attempts_only_grow(history)
        assert {"COMPLETED", "FAILED", "CANCELLED"} <= {event.what for event in history}
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise


def by_partition(history: list[Any]) -> dict[tuple[str, str], list[Any]]:
    partitions: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for event in history:
        partitions[event.queue, event.key].append(event)
    return partitions


def never_two_at_once(events: list[Any]) -> None:
    leases = [(event.what, event.task_id) for event in events if event.what in {"leased", "ended"}]
    for (began, task_id), (ended, same_id) in zip(leases[::2], leases[1::2], strict=True):
        assert (began, ended, task_id) == ("leased", "ended", same_id)


def a_head_stays_until_it_ended(events: list[Any]) -> None:
    claims = [event for event in events if event.what == "leased"]
    ends = [event for event in events if event.what in FINAL]
    for claimed, following in pairwise(claims):
        if claimed.task_id != following.task_id:
            between = [end.task_id for end in ends if claimed.n < end.n < following.n]
            assert claimed.task_id in between, (claimed, following)


def in_order(queue: str, events: list[Any]) -> None:
    """By number: first claims; completions, save of what was redriven while others went on."""
    numbers = {event.task_id: event.seq for event in events if event.seq is not None}
    first_claims = list(dict.fromkeys(event.task_id for event in events if event.what == "leased"))
    assert first_claims == sorted(first_claims, key=numbers.__getitem__)
    dead = {event.task_id for event in events if event.what == "FAILED"}
    completed = [
        event.seq
        for event in events
        if event.what == "COMPLETED" and (queue == HOLD or event.task_id not in dead)
    ]
    assert completed == sorted(completed), queue


def attempts_only_grow(history: list[Any]) -> None:
    attempts: dict[Any, list[int]] = defaultdict(list)
    for event in history:
        if event.what == "leased":
            attempts[event.task_id].append(event.attempt)
    for numbers in attempts.values():
        assert numbers == list(range(1, len(numbers) + 1))
