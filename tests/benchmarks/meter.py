"""Reads clocks and counters around the part of a run that counts."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks import counters, processes
from benchmarks.counters import Counts
from benchmarks.measured import Sample


@dataclass
class Meter:
    """``begin`` and ``end`` frame the run; ``sample`` is taken once its processes have stopped."""

    database_url: str | None
    messages: Callable[[], int] | None = None
    """Reads how many AMQP messages were published so far."""
    _before: dict[str, float] = field(default_factory=dict[str, float])
    _cpu: dict[str, float] = field(default_factory=dict[str, float])
    _counts: Counts | None = None
    _messages: int = 0
    _busy: float = 0.0
    _began: float = 0.0
    _own: float = 0.0
    foreign: float = 0.0
    seconds: float = 0.0

    def count(self) -> None:
        """Read the counters; before the work, since their readings need not be sudden."""
        if self.database_url is not None:
            self._counts = counters.read(self.database_url)
        if self.messages is not None:
            self._messages = self.messages()

    def begin(self) -> None:
        """The work begins now."""
        self._began, self._busy, self._own = time.monotonic(), processes.busy(), _own()
        self._before = processes.cpu_by_group()

    def end(self) -> None:
        """The work ends now."""
        self._cpu = processes.difference(self._before, processes.cpu_by_group())
        busy, own = processes.busy() - self._busy, _own() - self._own
        self.seconds = time.monotonic() - self._began
        self.foreign = max(0.0, busy - own - sum(self._cpu.values())) / self.seconds

    def sample(
        self, tasks: int, seconds: float | None = None, delays: tuple[float, ...] = ()
    ) -> Sample:
        """What was measured; the counters are read now."""
        counts = None
        if self.database_url is not None and self._counts is not None:
            counters.wait_for_reports(self.database_url)
            counts = counters.read(self.database_url).since(self._counts)
        return Sample(
            tasks=tasks,
            seconds=self.seconds if seconds is None else seconds,
            cpu=self._cpu,
            counts=counts,
            messages=None if self.messages is None else self.messages() - self._messages,
            delays=delays,
            foreign=self.foreign,
        )


def _own() -> float:
    """Our own CPU, and that of the processes whose end we waited for."""
    return sum(os.times()[:4])
