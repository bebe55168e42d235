"""What is reported of attempts, as events."""

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from taskbell.consumer.diagnosis import diagnose
from taskbell.consumer.leases import Lease
from taskbell.consumer.result import UnstorableResult
from taskbell.shared.events import (
    Event,
    LeaseLost,
    Level,
    Observer,
    TaskFailed,
    TaskSettled,
)
from taskbell.shared.lifecycle import Completed, Diagnosis, Failed, Outcome, Rejected
from taskbell.shared.sealing import SEALED


@dataclass(frozen=True, slots=True)
class IgnoredAfterEffect(Event):
    """A handler raised, or returned a result, after its effect had settled the task.

    The task stays completed; ``error`` is sanitised and bounded.
    """

    level: ClassVar[Level] = Level.WARNING
    task_id: UUID
    attempt: int
    type: str
    correlation_id: str | None
    error_class: str
    error: str


class Reports:
    """Tells the observer of one worker what became of its attempts."""

    def __init__(self, observe: Observer) -> None:
        self._observe = observe

    def settled(self, lease: Lease, status: str) -> None:
        """The task became ``status``."""
        context = lease.context
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

    def lost(self, lease: Lease, noticed_by: str, current: int | None) -> None:
        """Somebody else has the task, or may; ``current`` is the attempt it is at."""
        kind = lease.context.type
        self._observe(LeaseLost(lease.task_id, lease.attempt, kind, noticed_by, current))

    def failed(self, lease: Lease, outcome: Outcome) -> None:
        """The handler raised, if it did."""
        if isinstance(outcome, Failed | Rejected):
            self._observe(_told(TaskFailed, lease, outcome.diagnosis))

    def ignored(self, lease: Lease, outcome: Outcome | None) -> None:
        """What the handler did after its effect does not count, if it did anything."""
        diagnosis = _ignored(outcome)
        if diagnosis is not None:
            self._observe(_told(IgnoredAfterEffect, lease, diagnosis))


def _told(
    kind: type[TaskFailed | IgnoredAfterEffect], lease: Lease, diagnosis: Diagnosis
) -> TaskFailed | IgnoredAfterEffect:
    """Make the event, without the text if the task is sealed for."""
    return kind(
        task_id=lease.task_id,
        attempt=lease.attempt,
        type=lease.context.type,
        correlation_id=lease.context.correlation_id,
        error_class=diagnosis.error_class,
        error=diagnosis.error if lease.told.seal is None else SEALED,
    )


def _ignored(outcome: Outcome | None) -> Diagnosis | None:
    match outcome:
        case Failed(diagnosis) | Rejected(diagnosis):
            return diagnosis
        case Completed(result) if result is not None:
            return diagnose(UnstorableResult("returned after the effect: set effect.result"))
        case _:
            return None
