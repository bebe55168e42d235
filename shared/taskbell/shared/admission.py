"""When to come back: what a full queue or an empty bucket answers, and a bucket's local part.

Pure: the callers bring what was measured, the time and the roll of the dice.
"""

import json
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from taskbell.shared.errors import QueueFull, RateLimited

ROOM_SECONDS: Final = (1.0, 300.0)
"""The shortest and the longest wait for room in a queue."""

TOKEN_SECONDS: Final = (1.0, 3600.0)
"""The shortest and the longest wait for tokens."""

_UNKNOWN: Final = 30.0
_SPREAD: Final = 0.2


class Verdict(NamedTuple):
    """Why a birth was refused: a queue is full, or else an owner's bucket is short."""

    full_queue: str | None = None
    depth: int | None = None
    max_depth: int | None = None
    drain_rate: float | None = None
    limited_owner: str | None = None
    tokens: float | None = None
    need: float | None = None
    rate: float | None = None

    @classmethod
    def read(cls, text: str) -> Self:
        """Read what a statement tells: a JSON object of some of the fields."""
        return cls(**json.loads(text))


def refusal(verdict: Verdict, roll: float) -> QueueFull | RateLimited:
    """Return what to raise. ``roll``: 0…1, to spread who comes back."""
    if verdict.full_queue is not None:
        wait = seconds_until_room(
            verdict.depth or 0, verdict.max_depth or 0, verdict.drain_rate, roll
        )
        return QueueFull(verdict.full_queue, wait)
    wait = seconds_until_tokens(
        verdict.need or 0.0, verdict.tokens or 0.0, verdict.rate or 0.0, roll
    )
    return RateLimited("owner", verdict.limited_owner or "", wait)


def seconds_until_room(depth: int, max_depth: int, drain_rate: float | None, roll: float) -> float:
    """Return in how many seconds the queue drains below its limit, at the measured rate.

    Where nothing drains nobody knows: half a minute. Up to a fifth is added by ``roll`` (0…1), so
    that all who were refused do not come back at once.
    """
    if drain_rate is None or not drain_rate > 0:  # so written, NaN counts as nothing
        wait = _UNKNOWN
    else:
        wait = (depth - max_depth + 1) / drain_rate
    return _within(ROOM_SECONDS, wait, roll)


def seconds_until_tokens(need: float, tokens: float, rate: float, roll: float) -> float:
    """Return in how many seconds the bucket holds what is needed, spread as above.

    What is more than the bucket ever holds waits the longest time, in vain.
    """
    wait = (need - tokens) / rate if rate > 0 else TOKEN_SECONDS[1]
    return _within(TOKEN_SECONDS, wait, roll)


def _within(limits: tuple[float, float], wait: float, roll: float) -> float:
    least, most = limits
    return min(most, max(least, wait * (1.0 + _SPREAD * roll)))


@dataclass(slots=True)
class Portion:
    """Tokens of a bucket that were taken from the database and are spent in this process.

    They are good for a moment only, so that a quiet replica does not keep them from busy ones. A
    bucket that was short is believed to be for that moment, and to fill at its rate.
    """

    tokens: float
    rate: float
    taken_at: float
    """By the caller's clock, in seconds."""
    refused: bool = False
    """Nothing was taken: ``tokens`` are what the bucket itself held."""

    SECONDS = 1.0

    def fresh(self, now: float) -> bool:
        """Whether this may still be relied on."""
        return 0.0 <= now - self.taken_at < self.SECONDS

    def covers(self, count: float, now: float) -> bool:
        """Whether ``count`` tokens can be spent here."""
        return not self.refused and self.fresh(now) and self.tokens >= count

    def lacking(self, count: float, now: float) -> float | None:
        """What a bucket that was short holds by now, if that is less than ``count``."""
        if not self.refused or not self.fresh(now):
            return None
        there = self.tokens + self.rate * (now - self.taken_at)
        return there if there < count else None
