"""The life of every attempt in this worker: run, interrupt, settle."""

import asyncio
import contextvars
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from taskbell.consumer.attempt import Attempt, Interruption, judged
from taskbell.consumer.execution import execute
from taskbell.consumer.keeper import Keeper
from taskbell.consumer.leases import Lease
from taskbell.consumer.registry import Registration
from taskbell.consumer.settling import Ended, Settler
from taskbell.shared.database import Database, DedicatedConnection
from taskbell.shared.events import LeaseLost, Observer, TaskFailed, TaskSettled, TypeUnknown
from taskbell.shared.ids import WorkerId
from taskbell.shared.lifecycle import Failed, Outcome, Rejected, Released, settle

_UNKNOWN_TYPE_SECONDS = 30.0
_WATCH_SECONDS = 0.1
_UNSETTLED = 1000
# The share of a lease that must be left when its handler is stopped, and the seconds at least: the
# watch sees it up to a tick late, and the handler needs some time to end.
_MARGIN = 0.1
_LEAST_MARGIN = 0.25


class Attempts:
    """Runs handlers in ``slots``, keeps their leases and settles what comes of them."""

    def __init__(
        self,
        registrations: Mapping[str, Registration],
        database: Database,
        worker_id: WorkerId,
        slots: int,
        observe: Observer,
        slot_freed: Callable[[], None],
    ) -> None:
        self._registrations = registrations
        self._slots = slots
        self._observe = observe
        self._slot_freed = slot_freed
        # All that run, and of each task the latest: an older one whose lease was lost may run on.
        self._running: set[Attempt] = set()
        self._latest: dict[UUID, Attempt] = {}
        self._fault: BaseException | None = None
        self._threads = ThreadPoolExecutor(slots, thread_name_prefix="taskbell-handler")
        self.keeper = Keeper(database, worker_id, observe, self._report)
        self.settler = Settler(
            DedicatedConnection(database, "settle"), worker_id, observe, self._settled
        )
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
        expiring = [each for each in leases if _is_expiring(each)]
        self.give_back(expiring)
        worthwhile = [each for each in leases if each not in expiring] if expiring else leases
        self.keeper.hold(worthwhile)
        for lease in worthwhile:
            self._begin(lease)

    def give_back(self, leases: Sequence[Lease]) -> None:
        """Release these without running anything."""
        for lease in leases:
            self._settle(lease, Released(), 0.0)

    def _begin(self, lease: Lease) -> None:
        older = self._latest.get(lease.task_id)
        if older is not None:  # claimed again, so our older lease of it is gone
            self._lose(older, Interruption.LOST, "claim")
        registration = self._registrations.get(lease.context.type)
        attempt = Attempt(lease, registration is None or registration.runs_on_loop)
        self._latest[lease.task_id] = attempt
        self._running.add(attempt)
        # In an empty context: no task sees another's variables. Not in a task group: one that
        # swallows its cancellation must not keep the worker from ending.
        attempt.running = asyncio.get_running_loop().create_task(
            self._work(attempt, registration), context=contextvars.Context()
        )
        attempt.running.add_done_callback(self._note_fault)

    async def _work(self, attempt: Attempt, registration: Registration | None) -> None:
        attempt.begun = True
        lease, outcome = attempt.lease, None
        try:
            if attempt.interruption is None:
                outcome = await self._outcome(registration, lease)
        except asyncio.CancelledError:
            if attempt.interruption is None:  # somebody ends the whole loop
                self.keeper.forget([lease])
                raise
        except GeneratorExit:
            pass  # a future of the handler's carried it, and it flies past execute: no outcome
        finally:
            self._free_slot(attempt)
        counted = judged(outcome, attempt.interruption)
        if counted is None:
            self.keeper.forget([lease])
            return
        self._report_failure(lease, counted)
        after = registration.retry.after(lease.used) if registration else _UNKNOWN_TYPE_SECONDS
        self._settle(lease, counted, after)

    async def _outcome(self, registration: Registration | None, lease: Lease) -> Outcome:
        if registration is None:  # without a delay the poll would claim the same front for ever
            self._observe(TypeUnknown(lease.task_id, lease.context.type, lease.context.queue))
            return Released(_UNKNOWN_TYPE_SECONDS)
        return await execute(registration, lease, self._threads)

    def _note_fault(self, running: asyncio.Task[None]) -> None:
        if not running.cancelled() and running.exception() is not None:
            self._fault = running.exception()

    def _free_slot(self, attempt: Attempt) -> None:
        self._running.discard(attempt)
        if self._latest.get(attempt.lease.task_id) is attempt:
            del self._latest[attempt.lease.task_id]
        self._slot_freed()

    def _settle(self, lease: Lease, outcome: Outcome, after: float) -> None:
        self.settler.add(Ended(lease, settle(lease.task_id, lease.attempt, outcome, after)))

    def _report_failure(self, lease: Lease, outcome: Outcome) -> None:
        if isinstance(outcome, Failed | Rejected):
            context, diagnosis = lease.context, outcome.diagnosis
            failed = TaskFailed(
                task_id=lease.task_id,
                attempt=lease.attempt,
                type=context.type,
                correlation_id=context.correlation_id,
                error_class=diagnosis.error_class,
                error=diagnosis.error,
            )
            self._observe(failed)

    def _settled(self, ended: Ended, status: str | None) -> None:
        lease, context = ended.lease, ended.lease.context
        self.keeper.forget([lease])
        self._slot_freed()
        if status is None:
            self._observe(LeaseLost(lease.task_id, lease.attempt, context.type, "settlement"))
            return
        self.settled[context.queue] += 1
        settled = TaskSettled(
            task_id=lease.task_id,
            attempt=lease.attempt,
            type=context.type,
            queue=context.queue,
            correlation_id=context.correlation_id,
            status=status,
            seconds=lease.age(),
            announced_for=lease.announced_for,
        )
        self._observe(settled)

    def _report(self, lease: Lease, answer: str) -> None:
        attempt = self._latest.get(lease.task_id)
        if attempt is None or attempt.lease is not lease:
            return
        if answer == "lost":
            self._lose(attempt, Interruption.LOST, "heartbeat")
        else:
            attempt.interrupt(Interruption.CANCELLED)

    def _lose(self, attempt: Attempt, why: Interruption, noticed_by: str) -> None:
        lease = attempt.lease
        self.keeper.forget([lease])
        if attempt.interrupt(why):
            self._observe(LeaseLost(lease.task_id, lease.attempt, lease.context.type, noticed_by))

    async def watch(self) -> None:
        """End handlers whose lease could not be extended, before it runs out; until cancelled.

        Raises what should never happen, so that the process ends rather than limps.
        """
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            for attempt in [each for each in self._running if _is_expiring(each.lease)]:
                self._lose(attempt, Interruption.EXPIRING, "watchdog")
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
        self._threads.shutdown(wait=False, cancel_futures=True)
        await self.settler.close()
        await self.keeper.stop()


def _is_expiring(lease: Lease) -> bool:
    margin = max(_MARGIN * lease.seconds, _LEAST_MARGIN)
    return time.monotonic() >= lease.deadline - margin
