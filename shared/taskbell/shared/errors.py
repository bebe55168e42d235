"""The exceptions that leave taskbell.

::

    TaskbellError
    ├── InvalidTask            a request that was refused before anything was written
    ├── IdempotencyConflict    the key is known with another body
    ├── UnsupportedConnection  not a connection to Postgres that enqueue can use
    ├── QueueFull              the queue takes no more for now; nothing was written
    ├── RateLimited            the owner or the API key is over its rate; nothing was written
    ├── Unreadable             sealed or stored content that cannot be had any more, or not by us
    ├── StorageAway            an object could not be written or read in time
    └── DatabaseAway           the database could not be asked; the outcome may be unknown
"""

from typing import Literal
from uuid import UUID


class TaskbellError(Exception):
    """The root of every exception taskbell raises on purpose."""


class InvalidTask(TaskbellError, ValueError):
    """A request was refused; nothing was written.

    ``field`` names what was wrong, with its path inside the payload (``payload.lines[3].price``).
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class IdempotencyConflict(TaskbellError):
    """The owner used this idempotency key before, with another body; the transaction is unharmed.

    ``task_id`` is the task the key stands for.
    """

    def __init__(self, idempotency_key: str, task_id: UUID) -> None:
        super().__init__(
            f"idempotency key {idempotency_key!r} already stands for task {task_id}, "
            "which was submitted with another body"
        )
        self.idempotency_key = idempotency_key
        self.task_id = task_id


class UnsupportedConnection(TaskbellError, TypeError):
    """What was passed as connection is not one that enqueue can write through."""


class DatabaseAway(TaskbellError):
    """A statement could not be finished. Whether it was committed is unknown."""


class QueueFull(TaskbellError):
    """The queue holds as many tasks as it may; nothing was written, the transaction is unharmed.

    ``retry_after``: seconds, from the measured drain rate.
    """

    def __init__(self, queue: str, retry_after: float) -> None:
        super().__init__(f"queue {queue!r} is full; try again in {retry_after:.0f} s")
        self.queue = queue
        self.retry_after = retry_after


class RateLimited(TaskbellError):
    """An owner or an API key submits faster than it may; nothing was written.

    ``retry_after``: seconds until there are enough tokens again.
    """

    def __init__(self, scope: Literal["owner", "key"], name: str, retry_after: float) -> None:
        super().__init__(f"{scope} {name!r} is over its rate; try again in {retry_after:.0f} s")
        self.scope: Literal["owner", "key"] = scope
        self.name = name
        self.retry_after = retry_after


Lost = Literal["key unknown", "erased", "changed", "missing"]
"""Why content cannot be had: its key is not in the ring or was erased, it fails its check, or the
object is gone."""


class Unreadable(TaskbellError):
    """Sealed or stored content cannot be had; the content itself is never quoted."""

    def __init__(self, reason: Lost) -> None:
        super().__init__(f"the content cannot be read: {reason}")
        self.reason: Lost = reason


class StorageAway(TaskbellError):
    """An object could not be written or read in time; nothing is known of a write."""
