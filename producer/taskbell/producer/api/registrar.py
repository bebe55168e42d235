"""The producer of the interface, which knows of payloads that were stored for nothing."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from taskbell.producer.api.sweeper import Sweeper
from taskbell.producer.client import AsyncProducer
from taskbell.producer.new_task import NewTask, Options
from taskbell.producer.stored import StoredPayload
from taskbell.producer.submission import Enqueued
from taskbell.producer.typed_task import TypedTask
from taskbell.shared.errors import IdempotencyConflict, InvalidTask, QueueFull, RateLimited
from taskbell.shared.ids import TaskId

if TYPE_CHECKING:
    from taskbell.producer.connection import Awaited

_REFUSED = (IdempotencyConflict, InvalidTask, QueueFull, RateLimited)


@dataclass(frozen=True, slots=True)
class KnownPayload(StoredPayload):
    """The payload of a request whose key was seen to be known, so that nothing was stored."""

    known_id: TaskId
    is_same: bool
    """Whether the key stands for this request."""


class Registrar(AsyncProducer):
    """Answers for known payloads by itself, and deletes the objects of tasks that were not born.

    A refusal must end the caller's transaction, and with it the requests that were refused.
    """

    def __init__(self, **terms: Any) -> None:
        """``terms``: those of ``AsyncProducer``."""
        super().__init__(**terms)
        self.sweeper = Sweeper(self._terms.storage)

    async def enqueue(
        self,
        connection: "Awaited",
        task: str | TypedTask | NewTask,
        payload: object = None,
        **options: Unpack[Options],
    ) -> Enqueued:
        """Enqueue one task; guarantees and errors are those of ``AsyncProducer.enqueue``."""
        request = NewTask.of(task, payload, **options)
        if isinstance(request.payload, KnownPayload):
            return _known(request, request.payload)
        try:
            enqueued = await super().enqueue(connection, request)
        except _REFUSED:
            self._sweep([request])
            raise
        if enqueued.task_id != request.task_id:
            self._sweep([request])
        return enqueued

    async def enqueue_many(
        self, connection: "Awaited", tasks: Iterable[NewTask | TypedTask]
    ) -> list[Enqueued]:
        """Enqueue tasks; guarantees and errors are those of ``AsyncProducer.enqueue_many``."""
        requests = [NewTask.of(each) for each in tasks]
        asked = [each for each in requests if not isinstance(each.payload, KnownPayload)]
        try:
            answers = iter(await super().enqueue_many(connection, asked))
            enqueued = [
                _known(each, each.payload)
                if isinstance(each.payload, KnownPayload)
                else next(answers)
                for each in requests
            ]
        except _REFUSED:
            self._sweep(asked)
            raise
        pairs = zip(requests, enqueued, strict=True)
        self._sweep(request for request, answer in pairs if answer.task_id != request.task_id)
        return enqueued

    def _sweep(self, requests: Iterable[NewTask]) -> None:
        self.sweeper.sweep(filter(None, map(_ours, requests)))


def _known(request: NewTask, known: KnownPayload) -> Enqueued:
    if not known.is_same:
        raise IdempotencyConflict(request.idempotency_key or "", known.known_id)
    return Enqueued(known.known_id, created=False)


def _ours(request: NewTask) -> str | None:
    """Return where its object is, if we wrote it: what clients put is theirs."""
    location = request.payload.location if isinstance(request.payload, StoredPayload) else None
    return location if location is not None and location.startswith("payload/") else None
