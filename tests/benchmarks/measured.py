"""One measured run, and what several of them say together."""

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.counters import Counts

MICRO: Final = 1e6


@dataclass(frozen=True)
class Sample:
    """What one run of one system did and cost."""

    tasks: int
    seconds: float
    cpu: dict[str, float] = field(default_factory=dict[str, float])
    """CPU seconds by process group."""
    counts: Counts | None = None
    messages: int | None = None
    """AMQP messages published."""
    delays: tuple[float, ...] = ()
    """Seconds from the intended start to the handler."""
    foreign: float = 0.0
    """CPU that others used meanwhile, as a share of one core."""

    @property
    def rate(self) -> float:
        """Tasks a second."""
        return self.tasks / self.seconds

    def micros(self, group: str) -> float:
        """CPU-µs of a process group per task."""
        return MICRO * self.cpu.get(group, 0.0) / self.tasks


@dataclass(frozen=True)
class Series:
    """The runs of one system under one set of conditions."""

    system: str
    samples: tuple[Sample, ...]
    note: str = ""
    """What the system does for one task, so that nobody compares more work with less."""

    @property
    def rate(self) -> float:
        """The median rate."""
        return statistics.median(each.rate for each in self.samples)

    @property
    def spread(self) -> str:
        """Slowest to quickest run."""
        rates = [each.rate for each in self.samples]
        return f"{min(rates):,.0f} to {max(rates):,.0f}"

    @property
    def foreign(self) -> float:
        """The worst disturbance of a run, as a share of one core."""
        return max(each.foreign for each in self.samples)

    def micros(self, group: str) -> float:
        """Median CPU-µs of a group per task."""
        return statistics.median(each.micros(group) for each in self.samples)

    def per_task(self, counter: str) -> float | None:
        """Median of a database counter per task; None if the system has no database."""
        found = [
            getattr(each.counts, counter) / each.tasks
            for each in self.samples
            if each.counts is not None
        ]
        return statistics.median(found) if found else None

    @property
    def messages(self) -> float | None:
        """Median AMQP messages per task."""
        found = [each.messages / each.tasks for each in self.samples if each.messages is not None]
        return statistics.median(found) if found else None

    @property
    def hot(self) -> float | None:
        """Share of the updates that were HOT, over all runs."""
        counted = [each.counts for each in self.samples if each.counts is not None]
        updates = sum(each.updates for each in counted)
        return sum(each.hot for each in counted) / updates if updates else None

    @property
    def dead(self) -> float | None:
        """Median of the dead tuples left behind."""
        counted = [each.counts.dead for each in self.samples if each.counts is not None]
        return statistics.median(counted) if counted else None

    @property
    def delays(self) -> list[float]:
        """All latencies, sorted."""
        return sorted(delay for each in self.samples for delay in each.delays)


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which this share of the sorted values lies."""
    return values[min(len(values) - 1, int(share * len(values)))]


@dataclass(frozen=True, slots=True)
class Seen:
    """What the tallies of one run say together."""

    count: int
    total: int
    first: float
    last: float
    delays: tuple[float, ...]


def seen(directory: Path) -> Seen:
    """Add up the tallies in a directory."""
    found = [_read(path) for path in directory.glob("tally-*.json")]
    return Seen(
        count=sum(each["count"] for each in found),
        total=sum(each["total"] for each in found),
        first=min((each["first"] for each in found), default=0.0),
        last=max((each["last"] for each in found), default=0.0),
        delays=tuple(_all(each["delays"] for each in found)),
    )


def _read(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(path.read_text(encoding="ascii"))
    return read


def _all(lists: Iterable[Sequence[float]]) -> Iterable[float]:
    for each in lists:
        yield from each
