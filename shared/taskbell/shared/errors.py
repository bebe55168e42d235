"""The exceptions that leave taskbell.

::

    TaskbellError
    ├── InvalidTask            a request that was refused before anything was written
    ├── IdempotencyConflict    the key is known with another body
    ├── UnsupportedConnection  not a connection to Postgres that enqueue can use
    └── DatabaseAway           the database could not be asked; the outcome may be unknown
"""

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
