"""What a handler is told about its attempt."""

from dataclasses import dataclass, field
from datetime import datetime
from threading import Event
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Context:
    """One attempt at one task.

    ``idempotency_key`` is the same on every attempt: hand it to outside systems that take one.
    ``lost`` and ``cancelled`` tell handlers in threads, which cannot be interrupted, to stop: what
    they still write through taskbell after the lease was lost is refused.
    """

    task_id: UUID
    attempt: int
    type: str
    queue: str
    owner_id: str
    correlation_id: str | None
    traceparent: str | None
    created_at: datetime
    _lost: Event = field(repr=False)
    _cancelled: Event = field(repr=False)

    @property
    def idempotency_key(self) -> str:
        """A key for outside systems, equal on every attempt at this task."""
        return str(self.task_id)

    @property
    def lost(self) -> bool:
        """Whether somebody else may hold this task by now."""
        return self._lost.is_set()

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked for this task to be cancelled."""
        return self._cancelled.is_set()
