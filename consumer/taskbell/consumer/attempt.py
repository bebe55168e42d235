"""One attempt that runs here, how it is told to end, and what counts of what it did."""

import asyncio
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from taskbell.consumer.leases import Lease
from taskbell.shared.lifecycle import Failed, Outcome, Released, Stopped


class Interruption(Enum):
    """Why an attempt was told to end."""

    LOST = "somebody else took the task, or may"
    EXPIRING = "its lease could not be extended and is about to run out"
    CANCELLED = "somebody cancelled the task"
    RELEASED = "the worker stops"


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

    def interrupt(self, why: Interruption) -> bool:
        """Tell the handler to end; answers whether nobody had told it before.

        A handler on the loop is cancelled. One in a thread sees ``context.lost`` or
        ``context.cancelled`` and keeps its slot until it returns, unless the worker stops.
        """
        first = self.interruption is None
        if first:
            self.interruption = why
        if why is Interruption.CANCELLED:
            self.lease.told.cancelled = True
        else:
            self.lease.told.lost = True
        interruptible = self.on_loop or why is Interruption.RELEASED
        if (
            self.running is not None
            and self.begun
            and interruptible
            and (first or not self.on_loop)
        ):
            self.running.cancel()
        return first


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
        case Interruption.RELEASED:
            return Released() if outcome is None or isinstance(outcome, Failed) else outcome
        case _:
            assert_never(interruption)
