"""Sees which leases are about to run out without looking at all of them all the time."""

import asyncio
import math
import time
from collections.abc import Collection, Sequence

from taskbell.consumer.attempt import Attempt
from taskbell.consumer.leases import Lease
from taskbell.shared.clock import rest_until

_TICK_SECONDS = 0.1
_REST_SECONDS = 1.0


class Watchdog:
    """Looks when the first of the leases it knew may be expiring; beats only make that later."""

    def __init__(self) -> None:
        self._look_at = math.inf
        self._some = asyncio.Event()

    def note(self, leases: Sequence[Lease]) -> None:
        """Look at these in time, too."""
        if leases:
            self._look_at = min(self._look_at, *(each.expiring_at for each in leases))
            self._some.set()

    async def rest(self, *, idle: bool) -> None:
        """Return after a tick; while nothing runs, after a second or as soon as something does."""
        if not idle:
            await asyncio.sleep(_TICK_SECONDS)
            return
        self._some.clear()
        await rest_until(self._some, _REST_SECONDS)

    def expiring(self, running: Collection[Attempt]) -> list[Attempt]:
        """Return the attempts whose handlers must end now."""
        now = time.monotonic()
        if now < self._look_at:
            return []
        self._look_at = min((each.lease.expiring_at for each in running), default=math.inf)
        return [each for each in running if each.lease.expiring_at <= now]
