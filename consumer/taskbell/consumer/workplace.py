"""Where the handlers of one worker run: on the loop, in threads, in processes of their own."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from taskbell.consumer.children import Children
from taskbell.consumer.contents import Contents
from taskbell.consumer.execution import execute
from taskbell.consumer.leases import Lease
from taskbell.consumer.registry import Registration
from taskbell.shared.database import Database
from taskbell.shared.events import Observer, TypeUnknown
from taskbell.shared.ids import WorkerId
from taskbell.shared.lifecycle import Outcome, Released

UNKNOWN_TYPE_SECONDS = 30.0
"""After so long a task whose type has no handler here may be claimed again."""


class Workplace:
    """Gives handlers their payloads and runs them."""

    def __init__(
        self,
        database: Database,
        worker_id: WorkerId,
        slots: int,
        contents: Contents,
        observe: Observer,
    ) -> None:
        self._contents = contents
        self._observe = observe
        self._threads = ThreadPoolExecutor(slots, thread_name_prefix="taskbell-handler")
        self._children = Children(database, worker_id, contents.result_bytes)

    async def outcome(self, registration: Registration | None, lease: Lease) -> Outcome | None:
        """Run the handler and say what came of it; None: it was told to end before it began."""
        if registration is None:  # without a delay the poll would claim the same front for ever
            self._observe(TypeUnknown(lease.task_id, lease.context.type, lease.context.queue))
            return Released(UNKNOWN_TYPE_SECONDS)
        if lease.apart is not None or self._contents.seals is not None:
            hindrance = await self._contents.open(lease)
            told = lease.told
            if hindrance is not None or told.lost or told.cancelled or told.timed_out:
                return hindrance
        if registration.isolated:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, self._children.run, registration, lease
            )
        return await execute(
            registration, lease.context, lease.payload, self._threads, self._contents.result_bytes
        )

    def kill(self, lease: Lease) -> None:
        """End the process that runs this attempt, if there is one."""
        self._children.kill(lease)

    def close(self) -> None:
        """End the processes; handlers in threads are left behind."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._children.close()
