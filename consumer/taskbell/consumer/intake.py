"""Decides what is claimed next, and when: announcements first, the poll as safety net.

With a broker the poll runs every few seconds, and five times a second while the broker is away.
Without one it is the wake-up itself, and the doorbell says when.
"""

import asyncio
import random
from collections.abc import Sequence

import psycopg

from taskbell.consumer.announcements import PATIENCE_SECONDS, Announcements
from taskbell.consumer.leases import Claims, Lease
from taskbell.consumer.subscription import Subscription
from taskbell.shared.clock import loop_time, rest_until
from taskbell.shared.database import DedicatedConnection
from taskbell.shared.doorbell import Doorbell
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.events import Observer, TasksClaimed
from taskbell.shared.ids import TaskId
from taskbell.shared.maintenance.promote import Promoter
from taskbell.shared.points import AFTER_CLAIM, BEFORE_CLAIM

_AWAY_INTERVAL = 0.2
_GATHER_SECONDS = 0.005


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
        slots: int,
        poll_interval: float,
        doorbell: Doorbell | None,
    ) -> None:
        self._claims = claims
        self._connection = connection
        self._queues = list(queues)
        self._observe = observe
        self._worthwhile = max(1, slots // 4)
        self._poll_interval = poll_interval
        self._doorbell = doorbell
        self._promoter = Promoter()
        self._noted = Announcements()
        self._woken = asyncio.Event()
        self._poll_at = 0.0
        self._paused = False
        self._full = False
        self._gather_until = 0.0
        self._found = False
        self._ended = False
        self._connected = False
        self.subscription: Subscription | None = None

    def note(self, task_ids: Sequence[TaskId], handle: object) -> None:
        """Remember an announcement; called by the subscription."""
        if self._ended:
            self._give_back([handle])
            return
        self._noted.note(task_ids, handle, loop_time())
        self.wake()

    def wake(self) -> None:
        """Look again at once: ids came in, the broker came or went, or it is time to stop."""
        self._woken.set()
        if self._doorbell is not None:
            self._doorbell.wake()

    def end(self) -> None:
        """Claim nothing more; whoever waits for leases gets none."""
        self._ended = True
        self.wake()

    def slot_freed(self) -> None:
        """End the wait for a free slot, if there is one."""
        if self._full:
            self._woken.set()

    async def next_leases(self, free: int) -> list[Lease]:
        """Claim for up to ``free`` slots, or rest until there may be something.

        Raises ``DatabaseAway``.
        """
        if free <= 0:
            await self._saturated()
            return []
        if free < self._worthwhile and loop_time() < self._gather_until:
            await self._slot_freed_within(self._gather_until - loop_time())
            return []
        self._take_again()
        if self._doorbell is not None:
            return await self._poll_by_doorbell(self._doorbell, free)
        self._notice_broker()
        # Announcements go first, but the safety net has its turn however many there are.
        if self._noted and loop_time() < self._poll_at:
            return await self._claim_noted(free)
        return await self._poll_by_clock(free)

    async def _claim_noted(self, free: int) -> list[Lease]:
        taken = self._noted.take(free)
        handles = [each.handle for each in taken.finished]
        self._observe(BEFORE_CLAIM)
        try:
            leases = await self._claims.by_ids(taken.task_ids, free)
        except (DatabaseAway, psycopg.Error):
            self._give_back(handles)
            raise
        if leases:
            self._observe(AFTER_CLAIM)
        # Claim committed, then ack: acked first, a crash in between would leave the tasks to the
        # next poll or the mark's expiry.
        if self.subscription is not None:
            self.subscription.acknowledge(handles)
        if leases:
            self._observe(TasksClaimed("announcement", len(leases)))
        return leases

    async def _poll_by_clock(self, free: int) -> list[Lease]:
        if loop_time() >= self._poll_at:
            leases = await self._poll(free)
            if self._noted or not leases:  # else there may be more: again at once
                self._poll_at = loop_time() + self._interval()
            if leases:
                return leases
        await self._woken_within(max(0.0, self._poll_at - loop_time()))
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
        if self._found:  # what was claimed runs by now: the rest may cost a statement
            self._found = False
            await doorbell.rest(self._connection, self._queues, worked=True)
        promoted = await self._promoter.run_once(self._connection)
        if promoted is not None:
            self._observe(promoted)
        leases = await self._poll(free)
        self._found = bool(leases)
        if not leases:
            await doorbell.rest(self._connection, self._queues, worked=False)
        return leases

    async def _poll(self, free: int) -> list[Lease]:
        leases: list[Lease] = []
        random.shuffle(self._queues)  # no queue is always looked at last
        for queue in self._queues:
            if len(leases) < free and not self._ended:
                self._observe(BEFORE_CLAIM)
                leases += await self._claims.by_queue(queue, free - len(leases))
        if leases:
            self._observe(AFTER_CLAIM)
            self._observe(TasksClaimed("poll", len(leases)))
        return leases

    async def _saturated(self) -> None:
        await self._slot_freed_within(PATIENCE_SECONDS)
        # Slots come free one by one: a claim for each would cost more than the tasks.
        self._gather_until = loop_time() + _GATHER_SECONDS
        late = self._noted.give_back(loop_time())
        if late and self.subscription is not None:
            self._paused = True
            self.subscription.pause()  # or the broker would hand them to us again
            self._give_back([each.handle for each in late])

    def _take_again(self) -> None:
        if self._paused and self.subscription is not None:
            self._paused = False
            self.subscription.resume()

    def _give_back(self, handles: Sequence[object]) -> None:
        if self.subscription is not None:
            self.subscription.give_back(handles)

    async def _slot_freed_within(self, seconds: float) -> None:
        self._full = True
        try:
            await self._woken_within(seconds)
        finally:
            self._full = False

    async def _woken_within(self, seconds: float) -> None:
        try:
            await rest_until(self._woken, seconds)
        finally:
            self._woken.clear()

    async def stop(self) -> None:
        """Take nothing more; what was noted and not claimed goes back to the broker.

        Raises ``DatabaseAway``.
        """
        if self.subscription is not None:
            self.subscription.pause()
            self._give_back([each.handle for each in self._noted.clear()])
        if self._doorbell is not None:
            await self._doorbell.leave(self._connection)
