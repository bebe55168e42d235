"""One attempt that runs here, and how it is told to end."""

import asyncio
from dataclasses import dataclass
from enum import Enum

from taskbell.consumer.leases import Lease


class Interruption(Enum):
    """Why an attempt was told to end."""

    LOST = "lost"
    CANCELLED = "cancelled"
    RELEASED = "released"


@dataclass(slots=True, eq=False)
class Attempt:
    """One lease and the coroutine that works on it."""

    lease: Lease
    on_loop: bool
    """Whether its handler can be interrupted; one in a thread can only be told."""
    running: asyncio.Task[None] | None = None
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
            self.lease.cancelled.set()
        else:
            self.lease.lost.set()
        interruptible = self.on_loop or why is Interruption.RELEASED
        if self.running is not None and interruptible and (first or not self.on_loop):
            self.running.cancel()
        return first
