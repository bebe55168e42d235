"""Where a task is and what it waits for, as one sentence: nothing is invisible."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from taskbell.shared.lifecycle import TaskStatus

_SECONDS_SHOWN_WITH_A_DECIMAL = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """What the database knows of a task, without payload and result; durations in seconds.

    ``due_at`` and ``due_in`` are set while it waits, ``worker_id`` and ``lease_left`` while it
    runs; ``partition_head`` while it waits behind another; ``held_by`` while its partition is held.
    """

    task_id: UUID
    type: str
    queue: str
    owner_id: str
    status: str
    priority: int
    partition_key: str | None
    correlation_id: str | None
    created_at: datetime
    scheduled_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    attempt: int
    used: int
    max_attempts: int
    error_message: str | None
    due_at: datetime | None
    due_in: float | None
    parked: bool
    announced_for: float | None
    queue_paused: bool
    paused_until: datetime | None
    worker_id: str | None
    lease_left: float | None
    cancel_requested: bool
    progress: object
    error_class: str | None
    fingerprint: str | None
    held_by: UUID | None
    partition_head: UUID | None

    def __str__(self) -> str:
        """Say in one sentence where it is and what it waits for."""
        return f"{self.status}: {_sentence(self)}"


def _sentence(task: Whereabouts) -> str:
    if task.finished_at is not None:
        return _ended(task, task.finished_at)
    if task.lease_left is not None:
        return _runs(task, task.lease_left)
    if task.due_in is not None:
        return _waits(task, task.due_in)
    return "neither waits nor runs, which must not be: run taskbell audit"


def _ended(task: Whereabouts, finished_at: datetime) -> str:
    when = f"ended at {_instant(finished_at)}"
    match task.status:
        case TaskStatus.FAILED:
            holds = "; it holds its partition" if task.held_by == task.task_id else ""
            return f"{when} after {_count(task.used, 'try', 'tries')}{holds}; redrive or discard it"
        case TaskStatus.CANCELLED if task.held_by == task.task_id:
            return f"{when}; it holds its partition until that is released"
        case _:
            return when


def _runs(task: Whereabouts, lease_left: float) -> str:
    if lease_left <= 0:
        return f"its lease ran out {_duration(-lease_left)} ago and is about to be taken back"
    told = ", which will be told to cancel it" if task.cancel_requested else ""
    return (
        f"runs at {task.worker_id}{told}; the lease ends in {_duration(lease_left)} unless extended"
    )


def _waits(task: Whereabouts, due_in: float) -> str:
    if task.held_by is not None:
        return f"waits until task {task.held_by}, which holds the partition, is dealt with"
    if task.parked:
        if task.partition_head in {None, task.task_id}:
            return "waits to become the head of its partition, within a second or two"
        return f"waits behind task {task.partition_head} of the same partition"
    if task.queue_paused:
        until = (
            f"until {_instant(task.paused_until)}" if task.paused_until else "until it is resumed"
        )
        return f"waits for its queue, which is paused {until}"
    if due_in > 0:
        return f"waits until it is due, in {_duration(due_in)}"
    if task.announced_for is not None:
        return (
            f"is due, was announced {_duration(task.announced_for)} ago and waits for a free worker"
        )
    return f"is due since {_duration(-due_in)} and waits to be announced or polled"


def _instant(instant: datetime) -> str:
    return instant.isoformat(sep=" ", timespec="seconds")


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < _SECONDS_SHOWN_WITH_A_DECIMAL else f"{seconds:.0f} s"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
