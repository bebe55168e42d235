"""Every operation meets every other on one task, in two real sessions, in both orders.

The first is done and not yet committed (or stands halfway, if it is an effect) when the second
comes. Whether the second waits, what both answer and where the task is at last must be what
``meeting.py`` says; ``table.txt`` says it readably.
"""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from integration.consumer.ledger import make_ledger
from integration.matrix.meeting import PAIRS, Outcome, meetings, outcome
from integration.matrix.operations import Operation, answered, operation
from integration.matrix.states import State, place
from support.hands import Session, hands, session
from taskbell.shared.database import DedicatedConnection

LOOK_SECONDS = 0.002

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass(frozen=True)
class Ring:
    """Two sessions, and a connection that sets the scene and looks at what is left."""

    first: Session
    second: Session
    stage: DedicatedConnection


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ring(lasting_database_url: str) -> AsyncGenerator[Ring]:
    """One for all pairs: what is prepared on a connection stays so."""
    url = lasting_database_url
    make_ledger(url)
    async with session(url) as first, session(url) as second, hands(url) as stage:
        yield Ring(first, second, stage.connection)


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=lambda name: name.replace(" ", "_"))
async def test_two_at_once_come_out_as_one_after_the_other(
    ring: Ring, first: str, second: str
) -> None:
    wrong: list[tuple[str, Outcome, Outcome]] = []
    for name, start, commits in meetings(first, second):
        must = outcome(first, second, start, commits=commits)
        did = await meet(ring, first, second, start, commits=commits)
        if did != must:
            wrong.append((f"{name}, {'committed' if commits else 'rolled back'}", must, did))

    assert wrong == []


async def meet(ring: Ring, first: str, second: str, start: State, *, commits: bool) -> Outcome:
    """Let the second come while the first is open, then end the first."""
    for each in (ring.first, ring.second):  # if the meeting before went wrong
        await each.rollback()
    task = await place(ring.stage, start)
    one = operation(first, ring.first, "a")
    two = operation(second, ring.second, "b")
    told = await answered(one.do(task), ring.first)
    coming = asyncio.ensure_future(answered(two.do(task), ring.second))
    how = "waits" if await is_waiting(ring, coming) else "goes on"
    if how == "goes on":  # a connection that runs one statement at a time commits it at once
        await ring.second.commit()
    told = await end(ring.first, one, told, commits=commits)
    answer = await coming
    await ring.second.commit()
    return Outcome(how, told, answer, *await task.look(ring.stage))


async def end(first: Session, operation: Operation, told: str, *, commits: bool) -> str:
    """Commit the first, or roll it back."""
    if not commits:
        await first.rollback()
        return "rolled back"
    told = await answered(operation.finish(told), first)
    await first.commit()
    return told


async def is_waiting(ring: Ring, coming: asyncio.Future[str]) -> bool:
    """Whether the second waits for the first, once it either does or has its answer."""
    while True:
        done, _ = await asyncio.wait({coming}, timeout=LOOK_SECONDS)
        if done:
            return False
        if await ring.second.waits_for(ring.first):
            return True
