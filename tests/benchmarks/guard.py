"""What no change may make worse, as counts and ratios: a time would depend on the machine.

Counts come first: a statement more for each task shows in them on any machine. Ratios compare two
things measured in the same run, with room for a machine that is busy with something else.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.measured import Sample


@dataclass(frozen=True, slots=True)
class Measured:
    """The runs that are judged."""

    drain: Sample
    """Through relay and RabbitMQ."""
    brokerless: Sample
    one: Sample
    """Tasks enqueued one by one."""
    admitted: Sample
    """The same, asking for admission."""
    many: Sample
    """Tasks enqueued in one call."""
    effect: Sample
    floor: Sample
    """Whole lives by pgbench."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One figure and where it has to lie."""

    name: str
    value: float
    least: float
    most: float

    @property
    def kept(self) -> bool:
        """Whether it lies there."""
        return self.least <= self.value <= self.most

    def __str__(self) -> str:
        return f"{self.name}: {self.value:.3f}, not within {self.least:g} … {self.most:g}"


def bounds(measured: Measured) -> list[Bound]:
    """Everything that is held."""
    return [
        *_drains(measured),
        *_enqueues(measured),
        *_effects(measured),
        Bound("drain's rate / the floor's", measured.drain.rate / measured.floor.rate, 0.02, 50),
    ]


def broken(measured: Measured) -> list[str]:
    """The bounds that are not kept, in words."""
    return [str(each) for each in bounds(measured) if not each.kept]


def _drains(measured: Measured) -> Iterator[Bound]:
    for name, sample in (("drain", measured.drain), ("brokerless", measured.brokerless)):
        # One statement for each task and edge would be two or three; groups need a twentieth.
        yield Bound(f"{name}: statements a task", _per_task(sample, "statements"), 0.005, 0.5)
        yield Bound(f"{name}: commits a task", _per_task(sample, "commits"), 0.005, 0.5)
        yield Bound(f"{name}: WAL bytes a task", _per_task(sample, "wal"), 300, 2_500)
        yield Bound(f"{name}: share of HOT updates", _hot(sample), 0.6, 1)
        ratio = sample.micros("python") / max(1.0, sample.micros("postgres"))
        yield Bound(f"{name}: Python's CPU / Postgres'", ratio, 0, 12)
    messages = (measured.drain.messages or 0) / measured.drain.tasks
    yield Bound("drain: AMQP messages a task", messages, 0, 0.1)


def _enqueues(measured: Measured) -> Iterator[Bound]:
    # A few statements more are the connection's own.
    yield Bound("enqueue: statements a task", _per_task(measured.one, "statements"), 1, 1.1)
    asked = _per_task(measured.admitted, "statements")
    yield Bound("enqueue with admission: statements a task", asked, 1, 1.1)
    yield Bound("enqueue: commits a task", _per_task(measured.one, "commits"), 1, 1.1)
    yield Bound("enqueue: WAL bytes a task", _per_task(measured.one, "wal"), 300, 2_500)
    yield Bound("enqueue_many: statements a task", _per_task(measured.many, "statements"), 0, 0.01)
    yield Bound("enqueue_many: commits a task", _per_task(measured.many, "commits"), 0, 0.01)
    yield Bound("enqueue_many: WAL bytes a task", _per_task(measured.many, "wal"), 300, 2_500)


def _effects(measured: Measured) -> Iterator[Bound]:
    # Key, business UPDATE and settlement; at worst a claim for each besides.
    yield Bound("effect: statements a task", _per_task(measured.effect, "statements"), 3, 5)
    yield Bound("effect: commits a task", _per_task(measured.effect, "commits"), 1, 3.5)
    yield Bound("effect: WAL bytes a task", _per_task(measured.effect, "wal"), 500, 4_000)


def _per_task(sample: Sample, counter: str) -> float:
    if sample.counts is None:
        return float("nan")
    value: int = getattr(sample.counts, counter)
    return value / sample.tasks


def _hot(sample: Sample) -> float:
    counts = sample.counts
    return counts.hot / counts.updates if counts is not None and counts.updates else float("nan")
