"""The keeper: extends leases from a thread and a connection of its own.

So a handler that blocks the event loop, or one that holds every connection of a pool, keeps its
lease. It watches the loop and names the stack that blocks it; the loop watches the keeper, and ends
a handler whose lease could not be extended in time. Between beats it looks for cancellations.
"""

import asyncio
import math
import random
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import Connection

from taskbell.consumer.leases import Lease
from taskbell.consumer.look import Look
from taskbell.shared.array import numbers, uuids
from taskbell.shared.database import Database, cut
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.events import LoopBlocked, Observer
from taskbell.shared.ids import WorkerId
from taskbell.shared.outage import Outage
from taskbell.shared.statements import lease as statements

_BEATS_PER_LEASE = 3
_BUSY_SECONDS = 0.2
_TICK = 0.1
_REST_SECONDS = 1.0
_RESPONSIVE_SECONDS = 0.5
_BLOCKED_SECONDS = 2.0
_RECONNECT_SECONDS = 0.5
_UNANSWERED_SECONDS = 5.0
_FRAMES = 30

Report = Callable[[Lease, str, int | None], None]
"""Called on the event loop with ``lost`` or ``cancel``, and the task's attempt now, if known."""


class KeeperDied(RuntimeError):
    """The keeper's thread ended although nobody stopped it."""


class Keeper:
    """Beats for every lease it holds, until it is stopped; retries for ever."""

    def __init__(
        self, database: Database, worker_id: WorkerId, observe: Observer, report: Report
    ) -> None:
        self._database = database
        self._worker_id = worker_id
        self._observe = observe
        self._outage = Outage("keeper", observe)
        self._look = Look(worker_id, observe, self._outage, self._tell_cancelled)
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._loop_seen = time.monotonic()
        self._held: dict[Lease, float] = {}
        self._due_at = math.inf
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._some = threading.Event()
        self._unanswered_at: float | None = None
        self._connection: Connection[Any] | None = None
        self._thread = threading.Thread(target=self._run, name="taskbell-keeper", daemon=True)

    async def start(self) -> None:
        """Open the connection, then start beating; raises ``DatabaseAway``.

        A worker that has no such connection must not claim.
        """
        self._connection = await asyncio.to_thread(self._database.connect_blocking, "keeper")
        self._loop_seen = time.monotonic()
        self._thread.start()

    async def stop(self) -> None:
        """End the thread and close its connection; a thread that hangs ends with the process."""
        self._stopping.set()
        self._some.set()
        self._break_beat()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, _UNANSWERED_SECONDS)

    def hold(self, leases: Sequence[Lease]) -> None:
        """Beat for these from now on."""
        beats = {each: each.deadline - _beat_before(each) for each in leases}
        with self._lock:
            self._held.update(beats)
            self._due_at = min(self._due_at, *beats.values(), math.inf)
        self._some.set()

    def forget(self, leases: Sequence[Lease]) -> None:
        """Beat no more for these."""
        with self._lock:
            for each in leases:
                self._held.pop(each, None)

    def held(self) -> list[Lease]:
        """Every lease it beats for."""
        with self._lock:
            return list(self._held)

    def check(self) -> None:
        """Break a beat that has gone unanswered for too long; it is then tried anew.

        Raises ``KeeperDied``: without its thread no lease would be kept.
        """
        if not (self._thread.is_alive() or self._stopping.is_set()):
            raise KeeperDied("the keeper's thread ended; its traceback is on stderr")
        unanswered_at = self._unanswered_at
        if unanswered_at is not None and time.monotonic() >= unanswered_at:
            self._break_beat()

    def _break_beat(self) -> None:
        connection = self._connection
        if self._unanswered_at is not None and connection is not None:
            cut(connection)

    def _run(self) -> None:
        blocked = False
        while not self._stopping.wait(_TICK):
            if not self._held and time.monotonic() - self._loop_seen < _RESPONSIVE_SECONDS:
                self._rest()
            blocked = self._watch_loop(blocked)
            due = self._due()
            if due:
                self._beat(due)
            if self._held and self._look.is_due():
                held = self.held()
                with self._answered_soon(held):
                    self._look.take(self._opened, held)
        if self._connection is not None:
            self._connection.close()

    def _rest(self) -> None:
        """Wait for leases: without any nothing is due, and the loop answered a moment ago."""
        self._some.clear()
        if not self._held and not self._stopping.is_set():
            self._some.wait(_REST_SECONDS)
        self._loop_seen = time.monotonic()  # nobody looked meanwhile

    def _watch_loop(self, blocked: bool) -> bool:  # noqa: FBT001 - what the last tick found
        silent = time.monotonic() - self._loop_seen
        if silent < _BLOCKED_SECONDS:
            self._loop.call_soon_threadsafe(self._see_loop)
            return False
        if not blocked:
            # There is no other way to see what another thread is doing.
            frames = sys._current_frames()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            frame = frames.get(self._loop_thread)
            stack = "".join(traceback.format_stack(frame, _FRAMES)) if frame else ""
            self._observe(LoopBlocked(silent, stack))
        return True

    def _see_loop(self) -> None:
        self._loop_seen = time.monotonic()

    def _due(self) -> list[Lease]:
        now = time.monotonic()
        with self._lock:
            if now < self._due_at:
                return []  # nothing is: beats only make the next one later
            self._due_at = min(self._held.values(), default=math.inf)
            return [each for each, beat_at in self._held.items() if beat_at <= now]

    def _beat(self, due: list[Lease]) -> None:
        started = time.monotonic()
        try:
            with self._answered_soon(due):
                answers = self._ask(due)
        except (psycopg.Error, DatabaseAway) as error:
            self._outage.lost(error)
            self._look.postpone()  # beats come first
            self._stopping.wait(random.uniform(0.5, 1.5) * _RECONNECT_SECONDS)  # noqa: S311 - jitter
            return
        self._outage.found()
        current = self._current([e for e in due if answers[e.task_id, e.attempt] == "lost"])
        with self._lock:
            for each in due:
                self._take_answer(each, answers[each.task_id, each.attempt], started, current)

    @contextmanager
    def _answered_soon(self, leases: Sequence[Lease]) -> Generator[None]:
        """Let ``check`` break what goes unanswered so long that these leases might suffer."""
        shortest = min(each.seconds for each in leases)
        patience = min(_UNANSWERED_SECONDS, shortest / _BEATS_PER_LEASE)
        self._unanswered_at = time.monotonic() + patience
        try:
            yield
        finally:
            self._unanswered_at = None

    def _opened(self) -> Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = self._database.connect_blocking("keeper")
        return self._connection

    def _ask(self, due: list[Lease]) -> dict[tuple[object, int], str]:
        parameters = {
            "task_ids": uuids(each.task_id for each in due),
            "attempts": numbers(each.attempt for each in due),
            "leases": numbers(each.seconds for each in due),
            "worker_id": self._worker_id,
        }
        rows = self._opened().execute(statements.HEARTBEAT.for_psycopg, parameters).fetchall()
        return {(row.task_id, row.attempt): row.answer for row in rows}

    def _tell_cancelled(self, lease: Lease) -> None:
        self._loop.call_soon_threadsafe(self._report, lease, "cancel", None)

    def _current(self, lost: list[Lease]) -> dict[object, int]:
        """Ask which attempt these tasks are at; for people, so no answer is an answer."""
        if not lost or self._connection is None:
            return {}
        parameters = {"task_ids": [each.task_id for each in lost]}
        try:
            rows = self._connection.execute(statements.CURRENT.for_psycopg, parameters).fetchall()
        except psycopg.Error:
            return {}
        return {row.task_id: row.attempt for row in rows}

    def _take_answer(
        self, each: Lease, answer: str, started: float, current: dict[object, int]
    ) -> None:
        if each not in self._held:  # settled meanwhile
            return
        match answer:
            case "held" | "cancel":
                each.deadline = started + each.seconds
                self._held[each] = each.deadline - _beat_before(each)
            case "busy":
                if each.told.stage.holds:  # by our own effect: nobody can take what is locked
                    each.deadline = started + each.seconds
                self._held[each] = time.monotonic() + _BUSY_SECONDS
            case _:
                del self._held[each]
        if answer in {"lost", "cancel"}:
            self._loop.call_soon_threadsafe(self._report, each, answer, current.get(each.task_id))


def _beat_before(lease: Lease) -> float:
    """Seconds before the deadline at which the next beat is due."""
    return lease.seconds * (1 - 1 / _BEATS_PER_LEASE)
