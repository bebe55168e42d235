"""The life of every attempt in this worker: run, interrupt, settle."""

import asyncio
import contextvars
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from uuid import UUID

from taskbell.consumer.attempt import Attempt, Interruption, alarm_for, counted, holder_of
from taskbell.consumer.contents import Contents, in_row, sealed
from taskbell.consumer.effects import Effects
from taskbell.consumer.ended import Answered, Ended
from taskbell.consumer.keeper import Keeper
from taskbell.consumer.leases import Lease
from taskbell.consumer.registry import Registration
from taskbell.consumer.reports import Reports
from taskbell.consumer.settling import Settler
from taskbell.consumer.stage import Stage
from taskbell.consumer.watchdog import Watchdog
from taskbell.consumer.workplace import UNKNOWN_TYPE_SECONDS, Workplace
from taskbell.shared.database import DedicatedConnection
from taskbell.shared.events import Observer
from taskbell.shared.ids import WorkerId
from taskbell.shared.lifecycle import Failed, Outcome, Released, settle

_UNSETTLED = 1000


class Attempts:
    """Runs handlers in ``slots``, keeps their leases and settles what comes of them."""

    def __init__(
        self,
        registrations: Mapping[str, Registration],
        effects: Effects,
        contents: Contents,
        worker_id: WorkerId,
        slots: int,
        observe: Observer,
        slot_freed: Callable[[], None],
    ) -> None:
        database = effects.database
        self._registrations = registrations
        self._effects = effects
        self._contents = contents
        self._worker_id = worker_id
        self._slots = slots
        self._slot_freed = slot_freed
        # All that run, and of each task the latest: an older one whose lease was lost may run on.
        self._running: set[Attempt] = set()
        self._latest: dict[UUID, Attempt] = {}
        self._fault: Exception | None = None
        self._watchdog = Watchdog()
        self._workplace = Workplace(database, worker_id, slots, contents, observe)
        self.keeper = Keeper(database, worker_id, observe, self._hear)
        self.settler = Settler(
            DedicatedConnection(database, "settle"), worker_id, observe, self._settled
        )
        self._reports = Reports(observe)
        self.settled: Counter[str] = Counter()
        """Attempts settled since somebody last took the count, by queue."""

    @property
    def running(self) -> int:
        """How many slots are taken."""
        return len(self._running)

    @property
    def free(self) -> int:
        """How many tasks may be claimed now; none while settlements pile up."""
        if self.settler.unsettled >= _UNSETTLED:
            return 0
        return self._slots - len(self._running)

    def start(self, leases: Sequence[Lease]) -> None:
        """Run a handler for each of these."""
        # One whose claim took most of the lease to be answered would be interrupted at once.
        expiring = [each for each in leases if each.is_expiring()]
        self.give_back(expiring)
        worthwhile = [each for each in leases if each not in expiring] if expiring else leases
        self.keeper.hold(worthwhile)
        self._watchdog.note(worthwhile)
        for lease in worthwhile:
            self._begin(lease)

    def give_back(self, leases: Sequence[Lease]) -> None:
        """Release these without running anything."""
        for lease in leases:
            self._settle(lease, Released(), 0.0)

    def _begin(self, lease: Lease) -> None:
        older = self._latest.get(lease.task_id)
        if older is not None:  # claimed again, so our older lease of it is gone
            self._lose(older, Interruption.LOST, "claim", lease.attempt)
        registration = self._registrations.get(lease.context.type)
        attempt = Attempt(lease, registration is None or registration.runs_on_loop)
        lease.told.effects = self._effects
        lease.told.hold = partial(holder_of, lease, self._worker_id, self.keeper.forget)
        if registration is not None and registration.isolated:
            attempt.kill = partial(self._workplace.kill, lease)
        self._latest[lease.task_id] = attempt
        self._running.add(attempt)
        # In an empty context: no task sees another's variables. Not in a task group: one that
        # swallows its cancellation must not keep the worker from ending.
        attempt.running = asyncio.get_running_loop().create_task(
            self._work(attempt, registration), context=contextvars.Context()
        )

    async def _work(self, attempt: Attempt, registration: Registration | None) -> None:
        try:
            await self._run(attempt, registration)
        except Exception as error:  # noqa: BLE001 - watch() raises it
            self._fault = error

    async def _run(self, attempt: Attempt, registration: Registration | None) -> None:
        attempt.begun = True
        lease, outcome = attempt.lease, None
        alarm = alarm_for(attempt, registration.timeout if registration else None)
        try:
            if attempt.interruption is None:
                outcome = await self._workplace.outcome(registration, lease)
                if self._contents.storage is not None and self._contents.is_large(lease, outcome):
                    if alarm is not None:
                        alarm.cancel()  # the handler was in time
                    result, outcome = outcome, in_row(outcome)  # all that is left, interrupted
                    outcome = await self._contents.uploaded(lease, result)
        except asyncio.CancelledError:
            if attempt.interruption is None:  # somebody ends the whole loop
                self.keeper.forget([lease])
                raise
        except GeneratorExit:
            pass  # a future of the handler's carried it, and it flies past execute: no outcome
        finally:
            if alarm is not None:
                alarm.cancel()
            self._free_slot(attempt)
        self._conclude(attempt, registration, outcome)
        lease.told.hold = None  # it knows the lease, which would wait for the garbage collector

    def _conclude(
        self, attempt: Attempt, registration: Registration | None, outcome: Outcome | None
    ) -> None:
        """Settle what is left to settle, and report what came of it."""
        lease, told = attempt.lease, attempt.lease.told
        if told.stage in {Stage.SETTLED, Stage.ELSEWHERE}:
            self._reports.ignored(lease, outcome)
        if told.stage is Stage.SETTLED:
            self.settled[lease.context.queue] += 1
            self._reports.settled(lease, "COMPLETED")
        if told.stage is Stage.LOST and not attempt.told_lost:
            self._settle(lease, Released(), 0.0, noticed_by="effect")
            return
        left = counted(outcome, attempt.interruption, told)
        if left is None:
            self.keeper.forget([lease])
            return
        after = UNKNOWN_TYPE_SECONDS
        if registration is not None and isinstance(left, Failed):
            left, after = registration.retry.judge(left, lease.used)
        self._reports.failed(lease, left)
        self._settle(lease, left if told.seal is None else sealed(left, told.seal), after)

    def _free_slot(self, attempt: Attempt) -> None:
        self._running.discard(attempt)
        if self._latest.get(attempt.lease.task_id) is attempt:
            del self._latest[attempt.lease.task_id]
        self._slot_freed()

    def _settle(
        self, lease: Lease, outcome: Outcome, after: float, noticed_by: str = "settlement"
    ) -> None:
        settlement = settle(lease.task_id, lease.attempt, outcome, after)
        self.settler.add(Ended(lease, settlement, noticed_by))

    def _settled(self, answered: Sequence[Answered]) -> None:
        self.keeper.forget([each.ended.lease for each in answered])
        self._slot_freed()
        for (lease, _, noticed_by), status, current in answered:
            if status is None:
                self._reports.lost(lease, noticed_by, current)
            else:
                self.settled[lease.context.queue] += 1
                self._reports.settled(lease, status)

    def _hear(self, lease: Lease, answer: str, current: int | None) -> None:
        """Act on what the keeper learnt; an effect that is settling took the lease itself."""
        attempt = self._latest.get(lease.task_id)
        if attempt is None or attempt.lease is not lease or lease.told.stage.decides:
            return
        if answer == "lost":
            self._lose(attempt, Interruption.LOST, "heartbeat", current)
        else:
            attempt.interrupt(Interruption.CANCELLED)

    def _lose(
        self, attempt: Attempt, why: Interruption, noticed_by: str, current: int | None
    ) -> None:
        self.keeper.forget([attempt.lease])
        if attempt.interrupt(why):
            self._reports.lost(attempt.lease, noticed_by, current)

    async def watch(self) -> None:
        """End handlers whose lease could not be extended, before it runs out; until cancelled.

        Raises what should never happen, so that the process ends rather than limps.
        """
        while True:
            await self._watchdog.rest(idle=not self._running)
            for attempt in self._watchdog.expiring(self._running):
                lease = attempt.lease
                if lease.told.stage is not Stage.SETTLED:
                    current = lease.attempt if lease.remaining() > 0 else None
                    self._lose(attempt, Interruption.EXPIRING, "watchdog", current)
            self.keeper.check()
            if self._fault is not None:
                raise self._fault

    async def finished(self) -> None:
        """Return when no handler runs any more."""
        while running := [each.running for each in self._running if each.running is not None]:
            # Not gather: whoever stops waiting for it would cancel the handlers.
            await asyncio.wait(running)

    async def release(self) -> None:
        """Interrupt every handler and give its lease back, unused."""
        for attempt in list(self._running):
            attempt.interrupt(Interruption.RELEASED)
        await self.finished()

    def known(self) -> list[UUID]:
        """Every task of which this worker knows that it holds the lease, or may hold it yet."""
        held = (lease.task_id for lease in self.keeper.held())
        return list({*held, *self._latest, *self.settler.waiting()})

    async def close(self) -> None:
        """End the keeper and close the connections; handlers in threads are left behind."""
        self._workplace.close()
        await self._effects.close()
        await self._contents.close()
        await self.settler.close()
        await self.keeper.stop()
