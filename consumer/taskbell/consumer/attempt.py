"""One attempt that runs here, how it is told to end, and what counts of what it did."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from taskbell.consumer.context import Told
from taskbell.consumer.diagnosis import failed
from taskbell.consumer.errors import AttemptTimeout
from taskbell.consumer.fence import Holder
from taskbell.consumer.leases import Lease
from taskbell.consumer.stage import Stage
from taskbell.shared.ids import WorkerId
from taskbell.shared.lifecycle import Completed, Failed, Outcome, Released, Stopped


class Interruption(Enum):
    """Why an attempt was told to end."""

    LOST = "somebody else took the task, or may"
    EXPIRING = "its lease could not be extended and is about to run out"
    CANCELLED = "somebody cancelled the task"
    RELEASED = "the worker stops"
    TIMED_OUT = "it took longer than its handler's timeout"


@dataclass(slots=True, eq=False)
class Attempt:
    """One lease and the coroutine that works on it."""

    lease: Lease
    on_loop: bool
    """Whether its handler can be interrupted; one in a thread can only be told."""
    running: asyncio.Task[None] | None = None
    begun: bool = False
    """Whether the coroutine has had its first step; cancelled before, it would never have one."""
    interruption: Interruption | None = None
    kill: Callable[[], None] | None = None
    """How to end a handler that runs in a process of its own."""

    def interrupt(self, why: Interruption) -> bool:
        """Tell the handler to end; answers whether nobody had told it before.

        A handler on the loop is cancelled, one in a process of its own killed. One in a thread
        sees ``context.lost``, ``context.cancelled`` or ``context.timed_out`` and keeps its slot
        until it returns, unless the worker stops.
        """
        first = self.interruption is None
        if first:
            self.interruption = why
        self._tell(why)
        if self.kill is not None:
            self.kill()
        interruptible = self.on_loop or why is Interruption.RELEASED
        if (
            self.running is not None
            and self.begun
            and interruptible
            and (first or not self.on_loop)
        ):
            self.running.cancel()
        return first

    @property
    def told_lost(self) -> bool:
        """Whether it was told, and reported, that its lease is lost or about to be."""
        return self.interruption in {Interruption.LOST, Interruption.EXPIRING}

    def _tell(self, why: Interruption) -> None:
        match why:
            case Interruption.CANCELLED:
                self.lease.told.cancelled = True
            case Interruption.TIMED_OUT:
                self.lease.told.timed_out = True
            case _:
                self.lease.told.lost = True


def alarm_for(attempt: Attempt, timeout: float | None) -> asyncio.TimerHandle | None:
    """Interrupt the attempt after so many seconds, unless the alarm is cancelled before."""
    if timeout is None:
        return None
    loop = asyncio.get_running_loop()
    return loop.call_later(timeout, attempt.interrupt, Interruption.TIMED_OUT)


def holder_of(
    lease: Lease, worker_id: WorkerId, forget: Callable[[Sequence[Lease]], None]
) -> Holder:
    """Say who has the lease, as its effect needs it; ``forget``: called when that settled it."""
    told = lease.told

    def advance(stage: Stage, result: str | None) -> None:
        told.stage, told.result = stage, result
        if stage is Stage.SETTLED:
            forget([lease])

    return Holder(
        lease.task_id, lease.attempt, worker_id, lambda: told.stage, advance, lease.remaining,
        told.seal,
    )  # fmt: skip


def counted(
    outcome: Outcome | None, interruption: Interruption | None, told: Told
) -> Outcome | None:
    """Decide what is left to settle after an attempt with or without an effect; None: nothing.

    A commit that was not answered is settled as given back: the settlement waits until the commit
    is decided, and is told that the task was completed if it was.
    """
    match told.stage:
        case Stage.SETTLED | Stage.LOST:
            return None
        case Stage.UNKNOWN | Stage.SETTLING:
            return outcome if isinstance(outcome, Released) else Released()
        case Stage.ELSEWHERE:
            return judged(Completed(told.result), interruption)
        case Stage.NONE | Stage.OPEN | Stage.LOCKED:
            return judged(outcome, interruption)
        case _:
            assert_never(told.stage)


def judged(outcome: Outcome | None, interruption: Interruption | None) -> Outcome | None:
    """Decide what is settled of what a handler did (None: it was interrupted); None: nothing is.

    A handler that fails after it was told to end fails because of that. One that returns says that
    the work is done, but not after ``context.lost``, where it may have returned half-way.
    """
    match interruption:
        case None:
            return outcome
        case Interruption.LOST:
            return None
        case Interruption.EXPIRING:
            return Released()
        case Interruption.CANCELLED:
            return Stopped() if outcome is None or isinstance(outcome, Failed) else outcome
        case Interruption.TIMED_OUT:
            if outcome is None or isinstance(outcome, Failed):
                return failed(AttemptTimeout("the attempt took longer than its timeout"))
            return outcome
        case Interruption.RELEASED:
            return Released() if outcome is None or isinstance(outcome, Failed) else outcome
        case _:
            assert_never(interruption)
