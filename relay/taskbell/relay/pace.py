"""How long the relay rests after a pass, so that looking in vain never burns a core.

Pure: instants and durations are arguments, in seconds.
"""

from dataclasses import dataclass

# A pass reads up to a window in vain while consumers are behind: a tenth of the time at most.
_EMPTY_REST = 10
# Saved up while the bell is silent, so that the first rings are answered at once.
_MOST_CREDIT = 0.05
_LONGEST_REST = 0.5


@dataclass(frozen=True, slots=True)
class Pass:
    """What a pass did: tasks whose announcement was confirmed, and whether more surely wait."""

    tasks: int = 0
    full: bool = False


@dataclass(slots=True)
class Pace:
    """Empty passes spend a credit that grows by a tenth of the time."""

    credit: float = _MOST_CREDIT
    counted_at: float = 0.0

    def rest_after(self, done: Pass, *, started: float, ended: float) -> float:
        """Return how long to rest at least."""
        took = ended - started
        if done.full:
            return 0.0
        if done.tasks:
            # As long again: what comes in meanwhile shares an announcement.
            return min(_LONGEST_REST, took)
        earned = (started - self.counted_at) / _EMPTY_REST
        # One slow pass is paid for by one long rest, and then forgotten.
        least = -_LONGEST_REST / _EMPTY_REST
        self.credit = max(least, min(_MOST_CREDIT, self.credit + earned) - took)
        self.counted_at = started
        return max(0.0, -self.credit * _EMPTY_REST)
