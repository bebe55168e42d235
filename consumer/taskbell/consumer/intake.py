"""Decides what is claimed next, and when: announcements first, the poll as safety net.

With a broker the poll runs every few seconds, and five times a second while the broker is away.
Without one it is the wake-up itself, and the doorbell says when.
"""

import asyncio
import random
from collections.abc import Sequence

from taskbell.consumer.announcements import PATIENCE_SECONDS, Announcements
from taskbell.consumer.leases import Claims, Lease
from taskbell.consumer.subscription import Subscription
from taskbell.shared.database import DedicatedConnection
from taskbell.shared.doorbell import Doorbell
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.events import Observer, TasksClaimed
from taskbell.shared.ids import TaskId
from taskbell.shared.maintenance.promote import Promoter

_AWAY_INTERVAL = 0.2


class Intake:
    """What one worker claims.

    Exactly one of ``subscription`` and ``doorbell`` is given.
    """

    def __init__(
        self,
        claims: Claims,
        connection: DedicatedConnection,
        queues: Sequence[str],
        observe: Observer,
        *,
        poll_interval: float,
        doorbell: Doorbell | None,
    ) -> None:
        self._claims = claims
        self._connection = connection
        self._queues = list(queues)
        self._observe = observe
        self._poll_interval = poll_interval
        self._doorbell = doorbell
        self._promoter = Promoter()
        self._noted = Announcements()
        self._woken = asyncio.Event()
        self._poll_at = 0.0
        self._paused = False
        self._connected = False
        self.subscription: Subscription | None = None

    def note(self, task_ids: Sequence[TaskId], handle: object) -> None:
        """Remember an announcement; called by the subscription."""
        self._noted.note(task_ids, handle, _now())
        self.wake()

    def wake(self) -> None:
        """Look again at once: a slot is free, ids came in, or it is time to stop."""
        self._woken.set()
        if self._doorbell is not None:
            self._doorbell.wake()

    async def next_leases(self, free: int) -> list[Lease]:
        """Claim for up to ``free`` slots, or rest until there may be something.

        Raises ``DatabaseAway``.
        """
        if free <= 0:
            await self._saturated()
            return []
        await self._take_again()
        if self._noted:
            return await self._claim_noted(free)
        if self._doorbell is not None:
            return await self._poll_by_doorbell(self._doorbell, free)
        return await self._poll_by_clock(free)

    async def _claim_noted(self, free: int) -> list[Lease]:
        taken = self._noted.take(free)
        handles = [each.handle for each in taken.finished]
        try:
            leases = await self._claims.by_ids(taken.task_ids, free)
        except DatabaseAway:
            await self._give_back(handles)
            raise
        # Claim committed, then ack: acked first, a crash in between would leave the tasks to the
        # next poll or the mark's expiry.
        if self.subscription is not None:
            await self.subscription.acknowledge(handles)
        self._observe(TasksClaimed("announcement", len(leases)))
        return leases

    async def _poll_by_clock(self, free: int) -> list[Lease]:
        self._notice_broker()
        if _now() >= self._poll_at:
            leases = await self._poll(free)
            if leases:
                return leases
            self._poll_at = _now() + self._interval()
        await self._woken_within(max(0.0, self._poll_at - _now()))
        return []

    def _notice_broker(self) -> None:
        connected = self.subscription is not None and self.subscription.connected
        if connected != self._connected:  # either way somebody must look now
            self._connected = connected
            self._poll_at = 0.0

    def _interval(self) -> float:
        if self._connected:
            return self._poll_interval
        return random.uniform(0.75, 1.25) * _AWAY_INTERVAL  # noqa: S311 - jitter

    async def _poll_by_doorbell(self, doorbell: Doorbell, free: int) -> list[Lease]:
        promoted = await self._promoter.run_once(self._connection)
        if promoted is not None:
            self._observe(promoted)
        leases = await self._poll(free)
        await doorbell.rest(self._connection, worked=bool(leases), at_most=self._poll_interval)
        return leases

    async def _poll(self, free: int) -> list[Lease]:
        leases: list[Lease] = []
        random.shuffle(self._queues)  # no queue is always looked at last
        for queue in self._queues:
            if len(leases) < free:
                leases += await self._claims.by_queue(queue, free - len(leases))
        if leases:
            self._observe(TasksClaimed("poll", len(leases)))
        return leases

    async def _saturated(self) -> None:
        await self._woken_within(PATIENCE_SECONDS)
        late = self._noted.give_back(_now())
        if late and self.subscription is not None:
            if not self._paused:  # or the broker would hand them to us again
                self._paused = True
                await self.subscription.pause()
            await self.subscription.give_back([each.handle for each in late])

    async def _take_again(self) -> None:
        if self._paused and self.subscription is not None:
            self._paused = False
            await self.subscription.resume()

    async def _give_back(self, handles: Sequence[object]) -> None:
        if self.subscription is not None:
            await self.subscription.give_back(handles)

    async def _woken_within(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return
        finally:
            self._woken.clear()

    async def stop(self) -> None:
        """Take nothing more; what was noted and not claimed goes back to the broker."""
        dropped = self._noted.clear()
        if self.subscription is not None:
            await self.subscription.pause()
            dropped += self._noted.clear()
            await self.subscription.give_back([each.handle for each in dropped])
        if self._doorbell is not None:
            await self._doorbell.leave(self._connection)


def _now() -> float:
    return asyncio.get_running_loop().time()
