"""When a failed task is tried again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Try again ``delay`` seconds after a failure, whichever try it was."""

    delay: float = 10.0

    def after(self, used: int) -> float:
        """Return the seconds between the failure of try number ``used`` (from 1) and the next."""
        del used
        return self.delay
