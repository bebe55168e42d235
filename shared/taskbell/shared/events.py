"""What the roles report: events, of which log lines, numbers and spans are made elsewhere.

Loops call ``observe(Event(...))`` and know nothing of who listens. No event carries a payload, a
result or a secret.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar
from uuid import UUID


class Level(IntEnum):
    """How much an operator wants to know; the numbers are those of Python's log levels."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40


@dataclass(frozen=True, slots=True)
class Event:
    """The root of all events."""

    level: ClassVar[Level] = Level.INFO


Observer = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Observe nothing."""
    del event


@dataclass(frozen=True, slots=True)
class RoleStarted(Event):
    """A process is up; ``name`` is its worker or relay id."""

    role: str
    name: str
    queues: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RoleStopped(Event):
    """A process ended in good order."""

    role: str
    name: str


@dataclass(frozen=True, slots=True)
class DatabaseLost(Event):
    """A connection to Postgres broke or could not be opened; it is tried again for ever."""

    level: ClassVar[Level] = Level.WARNING
    purpose: str
    error: str


@dataclass(frozen=True, slots=True)
class DatabaseFound(Event):
    """The connection is back."""

    purpose: str


@dataclass(frozen=True, slots=True)
class BrokerFound(Event):
    """Connected to RabbitMQ."""

    purpose: str


@dataclass(frozen=True, slots=True)
class BrokerLost(Event):
    """RabbitMQ is away; polling goes on, and the connection is tried again for ever."""

    level: ClassVar[Level] = Level.WARNING
    purpose: str
    error: str


@dataclass(frozen=True, slots=True)
class QueueDiffers(Event):
    """RabbitMQ holds our queue with other arguments, or we may not declare it."""

    level: ClassVar[Level] = Level.ERROR
    queue: str
    error: str


@dataclass(frozen=True, slots=True)
class TasksAnnounced(Event):
    """One pass over one queue published announcements that the broker confirmed."""

    level: ClassVar[Level] = Level.DEBUG
    queue: str
    announcements: int
    tasks: int


@dataclass(frozen=True, slots=True)
class AnnouncementRefused(Event):
    """Announcements were refused, returned or not confirmed in time; marks were taken back."""

    level: ClassVar[Level] = Level.WARNING
    queue: str
    tasks: int
    reason: str


@dataclass(frozen=True, slots=True)
class DoorbellDeaf(Event):
    """LISTEN hears nothing (a pooler in between): polling instead."""

    level: ClassVar[Level] = Level.WARNING
    listener: str
    interval: float


@dataclass(frozen=True, slots=True)
class TasksClaimed(Event):
    """A claim took leases; ``door`` is ``announcement`` or ``poll``."""

    level: ClassVar[Level] = Level.DEBUG
    door: str
    tasks: int


@dataclass(frozen=True, slots=True)
class TaskSettled(Event):
    """An attempt ended; ``status`` is what the task became, ``seconds`` how long it was leased."""

    level: ClassVar[Level] = Level.DEBUG
    task_id: UUID
    attempt: int
    type: str
    queue: str
    correlation_id: str | None
    status: str
    seconds: float
    announced_for: float | None


@dataclass(frozen=True, slots=True)
class TaskFailed(Event):
    """A handler raised; ``error`` is its exception's text, storable and bounded."""

    level: ClassVar[Level] = Level.WARNING
    task_id: UUID
    attempt: int
    type: str
    correlation_id: str | None
    error_class: str
    error: str


@dataclass(frozen=True, slots=True)
class LeaseLost(Event):
    """A worker no longer holds the lease it ran under; what it still writes is refused.

    ``current_attempt``: the task's attempt now, if it could be found out; the same as ``attempt``
    means that the lease ran out or was ended, and nobody has claimed the task since.
    """

    level: ClassVar[Level] = Level.WARNING
    task_id: UUID
    attempt: int
    type: str
    noticed_by: str
    current_attempt: int | None = None


@dataclass(frozen=True, slots=True)
class TypeUnknown(Event):
    """A claimed task has a type this process does not handle; it was released with a delay."""

    level: ClassVar[Level] = Level.WARNING
    task_id: UUID
    type: str
    queue: str


@dataclass(frozen=True, slots=True)
class LoopBlocked(Event):
    """A handler keeps the event loop from running; ``stack`` shows where."""

    level: ClassVar[Level] = Level.WARNING
    seconds: float
    stack: str


@dataclass(frozen=True, slots=True)
class LeasesReaped(Event):
    """Expired leases were taken back, and this is what their tasks became."""

    level: ClassVar[Level] = Level.WARNING
    retried: int
    dead: int
    cancelled: int
    """Somebody had asked to cancel them."""


@dataclass(frozen=True, slots=True)
class PartitionsPromoted(Event):
    """Partitions without a head got one."""

    level: ClassVar[Level] = Level.DEBUG
    heads: int


@dataclass(frozen=True, slots=True)
class TasksPruned(Event):
    """Final tasks older than the retention were deleted."""

    tasks: int
    effects: int


@dataclass(frozen=True, slots=True)
class QueueMeasured(Event):
    """One queue's depth, the age of its oldest due entry (seconds) and tasks settled a second."""

    level: ClassVar[Level] = Level.DEBUG
    queue: str
    depth: int
    oldest_age: float
    drain_rate: float


@dataclass(frozen=True, slots=True)
class TablesVacuumed(Event):
    """The hot tables were vacuumed."""

    level: ClassVar[Level] = Level.DEBUG
    seconds: float


@dataclass(frozen=True, slots=True)
class StatementFailed(Event):
    """Postgres refused a statement of ours for a reason that waiting does not mend."""

    level: ClassVar[Level] = Level.ERROR
    purpose: str
    error: str
