"""What a handler is told about its attempt."""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID


@dataclass(slots=True)
class Told:
    """What the worker learnt about an attempt after it began; read from the handler's thread."""

    lost: bool = False
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    """One attempt at one task.

    ``idempotency_key`` is the same on every attempt: hand it to outside systems that take one.
    ``lost`` and ``cancelled`` tell handlers in threads, which cannot be interrupted, to stop. They
    stop by raising, whatever: a handler that returns says that the work is done.
    """

    task_id: UUID
    attempt: int
    type: str
    queue: str
    owner_id: str
    correlation_id: str | None
    traceparent: str | None
    created_at: datetime
    _told: Told = field(repr=False, compare=False)

    @property
    def idempotency_key(self) -> str:
        """A key for outside systems, equal on every attempt at this task."""
        return str(self.task_id)

    @property
    def lost(self) -> bool:
        """Whether somebody else may hold this task now or soon; what is returned does not count."""
        return self._told.lost

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked for this task to be cancelled."""
        return self._told.cancelled
