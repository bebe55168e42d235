"""The two producers: the same submission, run by the caller's connection in either colour."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Unpack

from taskbell.producer.batch import Batch
from taskbell.producer.connection import Awaited, Blocking, run, run_async
from taskbell.producer.gate import Gate
from taskbell.producer.new_task import NewTask, Options
from taskbell.producer.stored import StoredPayload, parcel_of
from taskbell.producer.submission import Enqueued, Submission, answer, submission_of_one
from taskbell.producer.terms import Terms
from taskbell.producer.trace import current_traceparent
from taskbell.producer.typed_task import TypedTask
from taskbell.shared.array import array, quoted
from taskbell.shared.limits import PAYLOAD_BYTES
from taskbell.shared.statements.data_key import OF_OWNERS

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
        ``storage``: where ``put`` keeps large ones. ``admission``: raise ``QueueFull`` for a queue
        that holds as many tasks as it may and ``RateLimited`` for an owner over its rate; a
        ``Gate`` chooses. Raises ``ValueError``.
        """
        if isinstance(admission, bool):
            admission = Gate.QUEUE_AND_RATE if admission else Gate.OPEN
        self._terms = Terms(
            owner_id, ring, payload_limit, own_only=own_only,
            seals=seals, storage=storage, gate=admission,
        )  # fmt: skip

    def _prepare(self, request: NewTask) -> Submission:
        return submission_of_one(request, self._terms, current_traceparent(), datetime.now(UTC))

    def _collect(self, tasks: Iterable[NewTask | TypedTask]) -> Batch:
        return Batch(tasks, self._terms, current_traceparent(), datetime.now(UTC))

    def _question(self, owner_ids: Iterable[str | None]) -> tuple[list[str], Submission] | None:
        """Ask for the keys of these owners that are not known; None stands for the producer's."""
        terms = self._terms
        asked = terms.unknown_owners(terms.owner_id if each is None else each for each in owner_ids)
        if not asked:
            return None
        return asked, Submission(OF_OWNERS, {"owner_ids": array(quoted, asked)})


def _owners(tasks: Iterable[object]) -> set[str | None]:
    return {task.owner_id if isinstance(task, NewTask) else None for task in tasks}


class Producer(_Desk):
    """Enqueues tasks through the caller's SQLAlchemy Session or Connection or psycopg Connection.

    It never commits, opens no connection and, but for ``put``, uses no other network. Task and
    business rows exist once the caller's transaction commits, and neither does if it rolls back.
    Thread-safe, as far as the connections are.
    """

    def enqueue(
        self,
        connection: "Blocking",
        task: str | TypedTask | NewTask,
        payload: object = None,
        **options: Unpack[Options],
    ) -> Enqueued:
        """Enqueue one task in one round trip; the options are the fields of ``NewTask``.

        With ``seals`` the owner's key is asked for before, once in half a minute. Raises, before
        anything is written, ``InvalidTask`` and ``UnsupportedConnection``; ``IdempotencyConflict``
        if the key was first used for another request and, with ``admission``, ``QueueFull`` and
        ``RateLimited``, all of which wrote nothing and leave the transaction usable; and whatever
        the connection itself raises.
        """
        request = NewTask.of(task, payload, **options)
        if self._terms.seals is not None:
            self._learn(connection, [request.owner_id])
        (row,) = run(connection, self._prepare(request))
        return answer(request, row, self._terms)

    def enqueue_many(
        self, connection: "Blocking", tasks: Iterable[NewTask | TypedTask]
    ) -> list[Enqueued]:
        """Enqueue tasks, thousands in a statement; one answer for each, in the same order.

        Raises as ``enqueue`` does. ``InvalidTask`` means that nothing was written.
        ``IdempotencyConflict`` is raised at the end, for the first request with one: every other
        task of the batch is then written and commits with the transaction, the conflicting ones
        are not. ``QueueFull`` and ``RateLimited`` mean that nothing of that statement was written,
        which is nothing at all up to 2,000 tasks. For all or nothing roll back, to a savepoint if
        need be.
        """
        if self._terms.seals is not None:
            tasks = list(tasks)
            self._learn(connection, _owners(tasks))
        batch = self._collect(tasks)
        for places, submission in batch.submissions():
            batch.note(places, run(connection, submission))
        return batch.answers()

    def put(
        self,
        payload: object,
        owner_id: str | None = None,
        *,
        connection: "Blocking | None" = None,
    ) -> StoredPayload:
        """Store a payload, if it is large, before the transaction that enqueues its task.

        ``payload``: JSON values or a typed task, up to 64 MiB with ``storage``. What is small stays
        in memory, so callers need not ask. Enqueue the answer in place of the payload, once: it
        stands for one task of this owner. If that never commits the object is collected later.
        ``connection``: with ``seals``, asks for the owner's key, as ``enqueue`` does. Raises
        ``InvalidTask``, ``StorageAway``, and ``LookupError`` if the key is not known and there is
        no connection to ask.
        """
        if connection is not None:
            self._learn(connection, [owner_id])
        stored, body = parcel_of(payload, owner_id, self._terms)
        storage = self._terms.storage
        if storage is None or body is None:
            return stored
        location = storage.put_blocking("payload", stored.task_id, stored.owner_id, body)
        return replace(stored, location=location)

    def _learn(self, connection: "Blocking", owner_ids: Iterable[str | None]) -> None:
        question = self._question(owner_ids)
        if question is not None:
            asked, submission = question
            self._terms.note_owners(asked, run(connection, submission))


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
        if self._terms.seals is not None:
            await self._learn(connection, [request.owner_id])
        (row,) = await run_async(connection, self._prepare(request))
        return answer(request, row, self._terms)

    async def enqueue_many(
        self, connection: "Awaited", tasks: Iterable[NewTask | TypedTask]
    ) -> list[Enqueued]:
        """Enqueue tasks; guarantees and errors are those of ``Producer.enqueue_many``."""
        if self._terms.seals is not None:
            tasks = list(tasks)
            await self._learn(connection, _owners(tasks))
        batch = self._collect(tasks)
        for places, submission in batch.submissions():
            batch.note(places, await run_async(connection, submission))
        return batch.answers()

    async def put(
        self,
        payload: object,
        owner_id: str | None = None,
        *,
        connection: "Awaited | None" = None,
    ) -> StoredPayload:
        """Store a payload, if it is large; guarantees and errors are those of ``Producer.put``."""
        if connection is not None:
            await self._learn(connection, [owner_id])
        stored, body = parcel_of(payload, owner_id, self._terms)
        storage = self._terms.storage
        if storage is None or body is None:
            return stored
        location = await storage.put("payload", stored.task_id, stored.owner_id, body)
        return replace(stored, location=location)

    async def _learn(self, connection: "Awaited", owner_ids: Iterable[str | None]) -> None:
        question = self._question(owner_ids)
        if question is not None:
            asked, submission = question
            self._terms.note_owners(asked, await run_async(connection, submission))
