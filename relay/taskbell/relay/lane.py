"""What the relay remembers of one queue between passes: whether RabbitMQ takes its announcements.

Pure: the clock and the dice are arguments. A queue that is refused waits by itself; others flow.
"""

from dataclasses import dataclass
from enum import StrEnum

from taskbell.shared.limits import ANNOUNCEMENT_IDS

_FIRST_WAIT = 0.1
_LONGEST_WAIT = 5.0
_UNSENDABLE_WAIT = 60.0
_MOST_DOUBLINGS = 6


class Fate(StrEnum):
    """What became of an announcement."""

    CONFIRMED = "confirmed"
    REFUSED = "refused by the broker: the queue is full"
    RETURNED = "returned by the broker: no queue is bound"
    UNCONFIRMED = "not confirmed in time: unknown, so announced again"
    CUT = "the connection broke: unknown, so announced again"
    UNSENDABLE = "the queue's name cannot be sent to RabbitMQ: only polls run its tasks"


@dataclass(slots=True)
class Lane:
    """One queue's state; instants are the event loop's, in seconds."""

    queue: str
    failures: int = 0
    closed_until: float = 0.0

    def is_open(self, now: float) -> bool:
        """Whether the queue may be announced now."""
        return now >= self.closed_until

    def batch(self, full: int) -> int:
        """How many entries to mark: after a failure a single announcement probes the way."""
        return min(full, ANNOUNCEMENT_IDS) if self.failures else full

    def judge(self, fates: set[Fate], now: float, roll: float) -> None:
        """Learn from a pass; ``roll`` in [0, 1) spreads relays that failed together."""
        if Fate.CONFIRMED in fates:
            self.failures = 0
        # A broken connection says nothing about the queue.
        problems = fates - {Fate.CONFIRMED, Fate.CUT}
        if not problems:
            return
        doublings = min(self.failures, _MOST_DOUBLINGS)
        wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2**doublings)
        if Fate.UNSENDABLE in problems:
            wait = _UNSENDABLE_WAIT
        self.failures += 1
        self.closed_until = now + wait * (0.5 + roll / 2)
