"""Watches tasks for those who wait for them: one statement for all of them, each half second.

It reads states, not a log of events: who follows a task sees where it is now, and may miss where it
was for a moment.
"""

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import psycopg

from taskbell.shared.array import uuids
from taskbell.shared.connections import Runner
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.events import Observer, ignore
from taskbell.shared.lifecycle import TaskStatus
from taskbell.shared.outage import Outage
from taskbell.shared.statements import states

FINAL: Final = frozenset({TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED})
_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class State:
    """What a follower can see change; ``progress`` is a digest, None without any."""

    status: str
    attempt: int
    progress: str | None

    @property
    def final(self) -> bool:
        """Whether the task has ended."""
        return self.status in FINAL


class Followed:
    """One task, as one follower sees it."""

    def __init__(self) -> None:
        self.over = False
        """Nothing more will be seen: the task is gone, or the process stops."""
        self._state: State | None = None
        self._changed = asyncio.Event()

    async def change(self, seconds: float) -> State | None:
        """Wait for the next state that can be seen, the first one included.

        None: there was none within so many seconds, or it is ``over``.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return None
        if self.over:
            return None
        self._changed.clear()
        return self._state

    def see(self, state: State | None) -> None:
        """Note where the task is; None: it is gone."""
        if state is None:
            self.end()
        elif state != self._state:
            self._state = state
            self._changed.set()

    def end(self) -> None:
        """Let the follower wait no longer."""
        self.over = True
        self._changed.set()


class Watcher:
    """Tells followers of each change they can still see; asks nothing while there are none."""

    def __init__(self, runner: Runner, observe: Observer = ignore) -> None:
        self._runner = runner
        self._outage = Outage("watch", observe)
        self._followed: dict[UUID, set[Followed]] = {}
        self._some = asyncio.Event()
        self._stopped = False

    @contextmanager
    def following(self, task_id: UUID) -> Generator[Followed]:
        """Follow a task; every follower is told, whoever it is: ask for its owner before."""
        followed = Followed()
        if self._stopped:
            followed.end()
        self._followed.setdefault(task_id, set()).add(followed)
        self._some.set()
        try:
            yield followed
        finally:
            others = self._followed[task_id]
            others.discard(followed)
            if not others:
                del self._followed[task_id]

    async def run(self) -> None:
        """Watch until ``stop``; an outage of the database is waited for."""
        while not self._stopped:
            if not self._followed:
                self._some.clear()
                await self._some.wait()
                continue
            await self._look()
            await asyncio.sleep(_SECONDS)

    def stop(self) -> None:
        """End all following, now and from now on."""
        self._stopped = True
        self._some.set()
        for followers in self._followed.values():
            for each in followers:
                each.end()

    async def _look(self) -> None:
        asked = list(self._followed)
        try:
            rows = await self._runner.run(states.STATES, task_ids=uuids(asked))
        except (DatabaseAway, psycopg.Error) as error:
            self._outage.lost(error)
        else:
            self._outage.found()
            self._tell(asked, {row.task_id: _state(row) for row in rows})

    def _tell(self, asked: Sequence[UUID], seen: dict[UUID, State]) -> None:
        for task_id in asked:
            for each in self._followed.get(task_id, ()):
                each.see(seen.get(task_id))


def _state(row: tuple[UUID, str, int, str | None]) -> State:
    _, status, attempt, progress = row
    return State(status, attempt, progress)
