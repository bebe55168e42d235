"""Tells the log why requests are refused for want of what this process depends on."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from taskbell.producer.api.problems import Problem
from taskbell.shared.errors import TaskbellError
from taskbell.shared.events import Event, Level, Observer
from taskbell.shared.outage import without_values

TOLD: Final = frozenset({"database-away", "database-read-only", "not-migrated", "storage-away"})
"""The issuer tells of itself, and the rest is the doing of callers, which is counted."""

_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class RequestsRefused(Event):
    """Requests end in this problem; told of each problem once a minute while it lasts."""

    level: ClassVar[Level] = Level.WARNING
    problem: str
    error: str


class Troubles:
    """Whoever answers a problem says so here; ``clock`` counts seconds."""

    def __init__(self, observe: Observer, clock: Callable[[], float] = time.monotonic) -> None:
        self._observe = observe
        self._clock = clock
        self._told_at: dict[str, float] = {}

    def met(self, problem: str, error: Exception) -> None:
        """Tell of it, unless that was told within the last minute."""
        if problem not in TOLD or isinstance(error, Problem):
            return  # a problem that was raised as such is the answer itself, of /readyz, say
        now = self._clock()
        told_at = self._told_at.get(problem)
        if told_at is None or now - told_at >= _SECONDS:
            self._told_at[problem] = now
            told = str(error) if isinstance(error, TaskbellError) else without_values(error)
            self._observe(RequestsRefused(problem, told))
