"""What a handler raises to steer its task; anything else it raises counts as a failed try."""

from taskbell.shared.errors import TaskbellError
from taskbell.shared.limits import DELAY_SECONDS


class RetryLater(TaskbellError):
    """Run this task again in ``after`` seconds, at no cost of a try."""

    def __init__(self, after: float) -> None:
        if not 0 <= after <= DELAY_SECONDS:  # so written, NaN does not pass
            raise ValueError(f"after: {after!r} is not within 0 to {DELAY_SECONDS} seconds")
        super().__init__(f"again in {after} s")
        self.after = after


class Reject(TaskbellError):
    """This task can never succeed: make it a dead letter now."""


class InvalidHandler(TaskbellError):
    """A handler cannot be registered; raised where it is decorated."""


class BrokerAway(TaskbellError):
    """RabbitMQ could not be asked; what was sent may or may not have arrived."""
