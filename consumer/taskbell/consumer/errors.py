"""What a handler raises to steer its task, and what it meets; anything else is a failed try."""

from typing import Literal
from uuid import UUID

from taskbell.shared.errors import TaskbellError
from taskbell.shared.limits import DELAY_SECONDS


class RetryLater(TaskbellError):
    """Run this task again in ``after`` seconds, at no cost of a try.

    ``hold="queue"``: nothing of the task's queue is claimed until then, by any worker.
    """

    def __init__(self, after: float, *, hold: Literal["queue"] | None = None) -> None:
        if not 0 <= after <= DELAY_SECONDS:  # so written, NaN does not pass
            raise ValueError(f"after: {after!r} is not within 0 to {DELAY_SECONDS} seconds")
        if hold not in {None, "queue"}:
            raise ValueError(f"hold: {hold!r} is not 'queue'")
        super().__init__(f"again in {after} s")
        self.after = after
        self.hold = hold


class Reject(TaskbellError):
    """This task can never succeed: make it a dead letter now."""


class InvalidHandler(TaskbellError):
    """A handler cannot be registered; raised where it is decorated."""


class InvalidEffect(TaskbellError):
    """An effect was asked for, or used, in a way that could not keep its promise."""


class LeaseLost(TaskbellError):
    """This worker no longer holds the task; the effect was rolled back, nothing was written."""

    def __init__(self, task_id: UUID, attempt: int) -> None:
        super().__init__(f"attempt {attempt} at task {task_id} no longer holds its lease")
        self.task_id = task_id
        self.attempt = attempt


class CommitUnknown(TaskbellError):
    """The effect's commit was not answered.

    Whether it took place is found out when the attempt is settled: if it did, the task is
    completed; if not, it runs again, at no cost of a try.
    """


class AttemptTimeout(TaskbellError, TimeoutError):
    """The attempt did not end within its handler's ``timeout``."""


class ProcessDied(TaskbellError):
    """The process that ran a handler of its own ended before the handler did."""


class EffectSeen(BaseException):
    """Ends a handler whose effect took place before; not an error, and not for catching."""
