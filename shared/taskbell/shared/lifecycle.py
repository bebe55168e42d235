"""The life of a task as one pure decision: what the handler did, and what is therefore written.

=============  ==============================================  ====================================
outcome        written as                                      the task becomes
=============  ==============================================  ====================================
``Completed``  ``completed``, with the result                  COMPLETED
``Kept``       ``completed``, with the sealed result, or with  COMPLETED
               where it is
``Failed``     ``retry`` after a delay, with the diagnosis     RETRYING, or FAILED when its tries
                                                               are used up
``Rejected``   ``fail``, with the diagnosis                    FAILED
``Snoozed``    ``snooze``: due again later, the try refunded   RETRYING
``Released``   ``release``: given back, the try refunded       PENDING, or RETRYING after an earlier
                                                               try
``Stopped``    ``cancelled``                                   CANCELLED
(lease lost)   ``lost``, by the reaper                         RETRYING (due at once), or FAILED
=============  ==============================================  ====================================

A cancellation that was asked for wins over everything but ``completed``.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple, assert_never
from uuid import UUID


class TaskStatus(StrEnum):
    """The user's view of a task."""

    PENDING = "PENDING"
    """Waits for its first try."""
    IN_PROGRESS = "IN_PROGRESS"
    """A worker holds its lease."""
    RETRYING = "RETRYING"
    """Waits for another try."""
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    """Dead: its tries are used up or its failure is permanent. It has a dead letter."""
    CANCELLED = "CANCELLED"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is kept of an exception; every text is storable and bounded."""

    error_class: str
    fingerprint: str
    error: str
    traceback: str


@dataclass(frozen=True, slots=True)
class Completed:
    """The handler returned; ``result`` is JSON text, if it returned anything."""

    result: str | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """The handler returned, and its result was sealed for the row or put in the storage."""

    sealed: bytes | None = None
    location: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler failed and may be tried again."""

    diagnosis: Diagnosis
    descent: tuple[str, ...] = ()
    """The exception's class and its parents by name: what a retry policy is chosen by."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The handler failed, and trying again would be pointless."""

    diagnosis: Diagnosis


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The handler asked to run again in ``seconds``, at no cost of a try."""

    seconds: float
    hold_queue: bool = False
    """Nothing of the task's queue is claimed until then."""


@dataclass(frozen=True, slots=True)
class Released:
    """The lease goes back unused, due in ``seconds``."""

    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Stopped:
    """The handler ended because the task was cancelled."""


Outcome = Completed | Kept | Failed | Rejected | Snoozed | Released | Stopped
Verdict = Literal["completed", "retry", "fail", "snooze", "release", "cancelled", "lost"]


class Settlement(NamedTuple):
    """What is written at the end of an attempt; the worker's name completes the fence."""

    task_id: UUID
    attempt: int
    verdict: Verdict
    delay: float = 0.0
    result: str | None = None
    diagnosis: Diagnosis | None = None
    hold_queue: bool = False
    result_sealed: bytes | None = None
    result_location: str | None = None


def settle(task_id: UUID, attempt: int, outcome: Outcome, retry_after: float) -> Settlement:
    """Decide what to write; ``retry_after`` (seconds) is the retry policy's answer for this try."""
    match outcome:
        case Completed(result):
            return Settlement(task_id, attempt, "completed", result=result)
        case Kept(sealed, location):
            return Settlement(
                task_id, attempt, "completed", result_sealed=sealed, result_location=location
            )
        case Failed(diagnosis, _):
            return Settlement(task_id, attempt, "retry", delay=retry_after, diagnosis=diagnosis)
        case Rejected(diagnosis):
            return Settlement(task_id, attempt, "fail", diagnosis=diagnosis)
        case Snoozed(seconds, hold_queue):
            return Settlement(task_id, attempt, "snooze", delay=seconds, hold_queue=hold_queue)
        case Released(seconds):
            return Settlement(task_id, attempt, "release", delay=seconds)
        case Stopped():
            return Settlement(task_id, attempt, "cancelled")
        case _:
            assert_never(outcome)


def next_status(
    verdict: Verdict, *, used: int, max_attempts: int, cancel_requested: bool
) -> TaskStatus:
    """Decide where a settled task goes; ``used`` counts this try. The SQL of settle agrees."""
    if verdict == "completed":
        return TaskStatus.COMPLETED
    if cancel_requested:
        return TaskStatus.CANCELLED
    match verdict:
        case "cancelled":
            return TaskStatus.CANCELLED
        case "fail":
            return TaskStatus.FAILED
        case "release":
            return TaskStatus.RETRYING if used > 1 else TaskStatus.PENDING
        case "snooze":
            return TaskStatus.RETRYING
        case "retry" | "lost":
            return TaskStatus.FAILED if used >= max_attempts else TaskStatus.RETRYING
        case _:
            assert_never(verdict)
