"""The life of every attempt in this worker: run, interrupt, settle."""

import asyncio
import contextvars
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from taskbell.consumer.attempt import Attempt, Interruption
from taskbell.consumer.execution import execute
from taskbell.consumer.keeper import Keeper
from taskbell.consumer.leases import Lease
from taskbell.consumer.registry import Registration
from taskbell.consumer.settling import Ended, Settler
from taskbell.shared.database import Database, DedicatedConnection
from taskbell.shared.events import LeaseLost, Observer, TaskFailed, TaskSettled, TypeUnknown
from taskbell.shared.ids import WorkerId
from taskbell.shared.lifecycle import Failed, Outcome, Rejected, Released, Stopped, settle

_UNKNOWN_TYPE_SECONDS = 30.0
_WATCH_SECONDS = 0.1
_UNSETTLED = 1000
# The share of a lease that must be left when its handler is stopped.
_MARGIN = 0.1


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
        self._running: dict[UUID, Attempt] = {}
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

    def start(self, leases: Sequence[Lease], group: asyncio.TaskGroup) -> None:
        """Run a handler for each of these."""
        self.keeper.hold(leases)
        for lease in leases:
            older = self._running.get(lease.task_id)
            if older is not None:  # claimed again, so our older lease of it is gone
                self._lose(older, "claim")
            registration = self._registrations.get(lease.context.type)
            attempt = Attempt(lease, registration is None or registration.runs_on_loop)
            self._running[lease.task_id] = attempt
            # In an empty context: no task sees another's variables.
            attempt.running = group.create_task(
                self._work(attempt, registration), context=contextvars.Context()
            )

    async def _work(self, attempt: Attempt, registration: Registration | None) -> None:
        lease = attempt.lease
        outcome: Outcome | None
        try:
            outcome = await self._outcome(registration, lease)
        except asyncio.CancelledError:
            if attempt.interruption is None:
                raise
            outcome = _after(attempt.interruption)
        finally:
            self._free_slot(attempt)
        if attempt.interruption is Interruption.LOST or outcome is None:
            self.keeper.forget([lease])
            return
        self._report_failure(lease, outcome)
        after = registration.retry.after(lease.used) if registration else _UNKNOWN_TYPE_SECONDS
        self.settler.add(Ended(lease, settle(lease.task_id, lease.attempt, outcome, after)))

    async def _outcome(self, registration: Registration | None, lease: Lease) -> Outcome:
        if registration is None:  # without a delay the poll would claim the same front for ever
            self._observe(TypeUnknown(lease.task_id, lease.context.type, lease.context.queue))
            return Released(_UNKNOWN_TYPE_SECONDS)
        return await execute(registration, lease, self._threads)

    def _free_slot(self, attempt: Attempt) -> None:
        if self._running.get(attempt.lease.task_id) is attempt:
            del self._running[attempt.lease.task_id]
        self._slot_freed()

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

    def _settled(self, ended: Ended, answer: str) -> None:
        lease, context = ended.lease, ended.lease.context
        self.keeper.forget([lease])
        self._slot_freed()
        self.settled[context.queue] += 1
        if answer == "lost":
            self._observe(LeaseLost(lease.task_id, lease.attempt, context.type, "settlement"))
            return
        settled = TaskSettled(
            task_id=lease.task_id,
            attempt=lease.attempt,
            type=context.type,
            queue=context.queue,
            correlation_id=context.correlation_id,
            status=answer.removeprefix("already "),
            seconds=lease.age(),
            announced_for=lease.announced_for,
        )
        self._observe(settled)

    def _report(self, lease: Lease, answer: str) -> None:
        attempt = self._running.get(lease.task_id)
        if attempt is None or attempt.lease is not lease:
            return
        if answer == "lost":
            self._lose(attempt, "heartbeat")
        else:
            attempt.interrupt(Interruption.CANCELLED)

    def _lose(self, attempt: Attempt, noticed_by: str) -> None:
        lease = attempt.lease
        self.keeper.forget([lease])
        if attempt.interrupt(Interruption.LOST):
            self._observe(LeaseLost(lease.task_id, lease.attempt, lease.context.type, noticed_by))

    async def watch(self) -> None:
        """End handlers whose lease could not be extended, before it runs out; until cancelled."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            now = asyncio.get_running_loop().time()
            for attempt in list(self._running.values()):
                if now >= attempt.lease.deadline - _MARGIN * attempt.lease.seconds:
                    self._lose(attempt, "watchdog")
            self.keeper.unhang()

    async def finished(self) -> None:
        """Return when no handler runs any more."""
        await asyncio.gather(*self._coroutines(), return_exceptions=True)

    async def release(self) -> None:
        """Interrupt every handler and give its lease back, unused."""
        for attempt in list(self._running.values()):
            attempt.interrupt(Interruption.RELEASED)
        await self.finished()

    def _coroutines(self) -> list[asyncio.Task[None]]:
        return [each.running for each in self._running.values() if each.running is not None]

    def held_ids(self) -> list[UUID]:
        """Every task whose lease this worker knows it holds, or whose handler still runs here."""
        return [*{lease.task_id for lease in self.keeper.held()} | self._running.keys()]


def _after(interruption: Interruption) -> Outcome | None:
    match interruption:
        case Interruption.LOST:
            return None
        case Interruption.CANCELLED:
            return Stopped()
        case Interruption.RELEASED:
            return Released()
