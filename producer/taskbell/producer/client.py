"""The two producers: the same submission, run by the caller's connection in either colour."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Unpack

from taskbell.producer.batch import Batch
from taskbell.producer.connection import Awaited, Blocking, run, run_async
from taskbell.producer.gate import Gate
from taskbell.producer.new_task import NewTask, Options
from taskbell.producer.submission import Enqueued, Submission, answer, submission_of_one
from taskbell.producer.terms import Terms
from taskbell.producer.trace import current_traceparent
from taskbell.producer.typed_task import TypedTask
from taskbell.shared.limits import PAYLOAD_BYTES

if TYPE_CHECKING:  # their libraries are extras
    from taskbell.shared.sealing import Seals
    from taskbell.shared.storage import Storage


class _Desk:
    """What both producers prepare in the same way."""

    def __init__(
        self,
        *,
        owner_id: str = "",
        ring: bool = True,
        payload_limit: int = PAYLOAD_BYTES,
        own_only: bool = False,
        seals: "Seals | None" = None,
        storage: "Storage | None" = None,
        admission: bool | Gate = False,
    ) -> None:
        """Keep what holds for every task of this producer; connects to nothing.

        ``owner_id``: the owner of tasks that name none. ``ring``: False never rings the doorbell,
        for transactions that end by PREPARE TRANSACTION; tasks may then start about a second
        later. ``payload_limit``: largest payload in bytes of UTF-8 JSON; may be lowered, not
        raised. ``own_only``: refuse tasks that name another owner. ``seals``: seal payloads.
        ``storage``: where ``put`` keeps large ones. ``admission``: raise ``QueueFull`` and
        ``RateLimited``. Raises ``ValueError``.
        """
        gate = admission
        if isinstance(gate, bool):
            gate = Gate.QUEUE_AND_RATE if gate else Gate.OPEN
        self._terms = Terms(
            owner_id,
            ring,
            payload_limit,
            own_only=own_only,
            seals=seals,
            storage=storage,
            gate=gate,
        )

    def _prepare(self, request: NewTask) -> Submission:
        return submission_of_one(request, self._terms, current_traceparent(), datetime.now(UTC))

    def _collect(self, tasks: Iterable[NewTask | TypedTask]) -> Batch:
        return Batch(tasks, self._terms, current_traceparent(), datetime.now(UTC))


class Producer(_Desk):
    """Enqueues tasks through the caller's SQLAlchemy Session or Connection or psycopg Connection.

    It never commits, opens no connection and uses no other network. Task and business rows exist
    once the caller's transaction commits, and neither does if it rolls back. Thread-safe, as far
    as the connections are.
    """

    def enqueue(
        self,
        connection: "Blocking",
        task: str | TypedTask | NewTask,
        payload: object = None,
        **options: Unpack[Options],
    ) -> Enqueued:
        """Enqueue one task in one round trip; the options are the fields of ``NewTask``.

        Raises, before anything is written, ``InvalidTask`` and ``UnsupportedConnection``;
        ``IdempotencyConflict`` if the key was first used for another request, which wrote nothing
        and leaves the transaction usable; and whatever the connection itself raises.
        """
        request = NewTask.of(task, payload, **options)
        (row,) = run(connection, self._prepare(request))
        return answer(request, row)

    def enqueue_many(
        self, connection: "Blocking", tasks: Iterable[NewTask | TypedTask]
    ) -> list[Enqueued]:
        """Enqueue tasks, thousands in a statement; one answer for each, in the same order.

        Raises as ``enqueue`` does. ``InvalidTask`` means that nothing was written.
        ``IdempotencyConflict`` is raised at the end, for the first request with one: every other
        task of the batch is then written and commits with the transaction, the conflicting ones
        are not. For all or nothing roll back, to a savepoint if need be.
        """
        batch = self._collect(tasks)
        for places, submission in batch.submissions():
            batch.note(places, run(connection, submission))
        return batch.answers()


class AsyncProducer(_Desk):
    """``Producer`` for an AsyncSession, AsyncConnection or ``psycopg.AsyncConnection``."""

    async def enqueue(
        self,
        connection: "Awaited",
        task: str | TypedTask | NewTask,
        payload: object = None,
        **options: Unpack[Options],
    ) -> Enqueued:
        """Enqueue one task; guarantees and errors are those of ``Producer.enqueue``."""
        request = NewTask.of(task, payload, **options)
        (row,) = await run_async(connection, self._prepare(request))
        return answer(request, row)

    async def enqueue_many(
        self, connection: "Awaited", tasks: Iterable[NewTask | TypedTask]
    ) -> list[Enqueued]:
        """Enqueue tasks; guarantees and errors are those of ``Producer.enqueue_many``."""
        batch = self._collect(tasks)
        for places, submission in batch.submissions():
            batch.note(places, await run_async(connection, submission))
        return batch.answers()
