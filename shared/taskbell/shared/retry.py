"""When a failed task is tried again: pure policies.

``used`` is the number of tries that failed so far, from 1; ``roll`` a random number from 0 to 1.
Every policy answers a number of seconds within its bounds for any number of tries, and never
raises: a failure that cannot be written down would never end.
"""

import math
from dataclasses import dataclass
from typing import Protocol

from taskbell.shared.limits import DELAY_SECONDS

FLOOR_SECONDS = 0.05
"""The shortest pause, unless a policy says 0 outright."""

_HIGHEST_POWER = 1000
"""Of two, that a float holds; clamped before the power, not after."""


class Retry(Protocol):
    """A policy."""

    def after(self, used: int, roll: float) -> float:
        """Return the seconds between the failure of try number ``used`` and the next try."""
        ...

    def problem(self) -> str | None:
        """Say what is wrong with its numbers; None if nothing is."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Try again ``delay`` seconds after a failure, whichever try it was."""

    delay: float = 10.0

    def after(self, used: int, roll: float) -> float:
        """Return the delay."""
        del used, roll
        return _within(self.delay, DELAY_SECONDS)

    def problem(self) -> str | None:
        """Refuse a delay that never comes."""
        return _problem("a retry delay", self.delay)


@dataclass(frozen=True, slots=True)
class Exponential:
    """Try again after ``base · 2^(used - 1) + uniform(0, jitter)`` seconds, at most ``cap``.

    A jitter as large as the base spreads the first retries of many tasks that failed together;
    where later ones must spread as widely, choose a strategy with full jitter, such as tenacity's
    ``wait_random_exponential``.
    """

    base: float = 10.0
    jitter: float = 10.0
    cap: float = 3600.0

    def after(self, used: int, roll: float) -> float:
        """Return the seconds, at least ``FLOOR_SECONDS``."""
        power = min(max(used - 1, 0), _HIGHEST_POWER)
        doubled = math.ldexp(1.0, power) * min(self.base, DELAY_SECONDS)
        jitter = roll * min(self.jitter, DELAY_SECONDS)
        return _within(max(FLOOR_SECONDS, doubled + jitter), self.cap)

    def problem(self) -> str | None:
        """Refuse numbers that make no delay."""
        if not self.cap >= FLOOR_SECONDS:
            return f"the cap of a retry delay has at least {FLOOR_SECONDS} seconds"
        return (
            _problem("the base of a retry delay", self.base)
            or _problem("the jitter of a retry delay", self.jitter)
            or _problem("the cap of a retry delay", self.cap)
        )


@dataclass(frozen=True, slots=True, init=False)
class Delays:
    """Try again after each of these seconds in turn; the last one counts for all later tries."""

    seconds: tuple[float, ...]

    def __init__(self, *seconds: float) -> None:
        object.__setattr__(self, "seconds", seconds)

    def after(self, used: int, roll: float) -> float:
        """Return the delay of this try."""
        del roll
        place = min(max(used, 1), len(self.seconds)) - 1
        return _within(self.seconds[place] if self.seconds else 0.0, DELAY_SECONDS)

    def problem(self) -> str | None:
        """Refuse an empty table and delays that never come."""
        if not self.seconds:
            return "a table of retry delays has at least one"
        return next(filter(None, (_problem("a retry delay", each) for each in self.seconds)), None)


def _within(seconds: float, cap: float) -> float:
    """Bound a delay from both sides; what is no number at all becomes the cap."""
    highest = float(min(cap, DELAY_SECONDS)) if cap >= 0 else 0.0
    if not seconds <= highest:
        return highest
    if 0 < seconds < FLOOR_SECONDS:
        return min(FLOOR_SECONDS, highest)
    return max(0.0, seconds)


def _problem(what: str, seconds: float) -> str | None:
    if 0 <= seconds <= DELAY_SECONDS:
        return None
    return f"{what} has 0 to {DELAY_SECONDS} seconds"
