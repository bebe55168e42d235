"""What a handler raises to steer its task; anything else it raises counts as a failed try."""

from taskbell.shared.errors import TaskbellError


class RetryLater(TaskbellError):
    """Run this task again in ``after`` seconds, at no cost of a try."""

    def __init__(self, after: float) -> None:
        if not 0 <= after < float("inf"):
            raise ValueError(f"after: {after!r} is not a number of seconds from 0 on")
        super().__init__(f"again in {after} s")
        self.after = after


class Reject(TaskbellError):
    """This task can never succeed: make it a dead letter now."""


class InvalidHandler(TaskbellError):
    """A handler cannot be registered; raised where it is decorated."""
