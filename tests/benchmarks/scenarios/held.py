"""A REPEATABLE READ transaction held open under half load: before, during, and after it."""

import itertools
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import IsolationLevel

from benchmarks import counters, producing
from benchmarks.bench import Bench, Curve, Finding, Outcome
from benchmarks.pipeline import Pipeline, Shape, open_pipeline
from taskbell.shared.database import conninfo

_LOAD = 0.5
_KEPT = 0.95
_SHARE_FREE = 0.15
_RECOVERY_SECONDS = 60.0
_STEP_SECONDS = 1.0
_DEAD = """
SELECT coalesce(sum(n_dead_tup), 0) FROM pg_stat_user_tables WHERE relname IN ('outbox', 'lease')
"""


@dataclass(frozen=True, slots=True)
class Look:
    """A look at the pipeline: when, how many ran so far, how many dead rows the hot tables have."""

    at: float
    ran: int
    dead: int


def run(bench: Bench) -> Outcome:
    """Run at half of the rate that ``life`` found, hold a snapshot in the middle."""
    rate = _LOAD * bench.known.get("life", 2_000.0)
    hold = bench.size.hold_seconds
    free = max(3.0, _SHARE_FREE * hold)
    count = round(rate * (2 * free + hold))
    with open_pipeline(bench, Shape()) as pipeline:
        pipeline.start()
        names = producing.make_ready(pipeline.crew, "steady", [count], rate)
        producing.begin(pipeline.crew, names)
        begun = time.monotonic()
        looks = [*_watch(pipeline, begun, free)]
        with _held(pipeline.database_url):
            looks += _watch(pipeline, begun, hold)
        released = looks[-1].dead
        looks += _watch(pipeline, begun, free)
        pipeline.drained(count)
        recovered = _swept(pipeline)
        pipeline.crew.stop()
        pipeline.require_once(count)
    bench.servers.sweep()
    outcome = Outcome()
    _tell(outcome, looks, rate)
    before, during, after = _phases(looks, free, hold)
    rates = f"{100 * during / rate:.0f} % of the offered {rate:,.0f}/s"
    dead = f"{released:,} in outbox and lease at release, swept {recovered:.0f} s after the load"
    outcome.findings += [
        Finding(
            f"REPEATABLE READ held open for {hold:.0f} s, rate",
            ">= 95 % during",
            f"{rates} (before {before:,.0f}, after {after:,.0f}/s)",
            during >= _KEPT * rate,
        ),
        Finding(
            "the same, dead rows",
            "bounded after, full recovery in 60 s",
            dead,
            recovered <= _RECOVERY_SECONDS,
        ),
    ]
    return outcome


@contextmanager
def _held(url: str) -> Generator[None]:
    with psycopg.connect(conninfo(url)) as connection:
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM taskbell.task")
        yield
        connection.rollback()


def _watch(pipeline: Pipeline, begun: float, seconds: float) -> Iterator[Look]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(_STEP_SECONDS)
        dead = int(counters.rows(pipeline.database_url, _DEAD)[0][0])
        yield Look(time.monotonic() - begun, pipeline.seen().count, dead)


def _swept(pipeline: Pipeline) -> float:
    """Seconds until the hot tables have few dead rows again."""
    begun = time.monotonic()
    few = 10_000
    while time.monotonic() - begun < 2 * _RECOVERY_SECONDS:
        if int(counters.rows(pipeline.database_url, _DEAD)[0][0]) < few:
            break
        time.sleep(_STEP_SECONDS / 4)
    return time.monotonic() - begun


def _phases(looks: list[Look], free: float, hold: float) -> tuple[float, float, float]:
    """Rates before, during and after."""
    zero = Look(0.0, 0, 0)
    first = [each for each in looks if each.at <= free] or looks[:1]
    middle = [each for each in looks if each.at <= free + hold] or looks[:2]
    return _rate(zero, first[-1]), _rate(first[-1], middle[-1]), _rate(middle[-1], looks[-1])


def _rate(start: Look, end: Look) -> float:
    return (end.ran - start.ran) / max(0.1, end.at - start.at)


def _tell(outcome: Outcome, looks: list[Look], rate: float) -> None:
    rates = [(end.at, _rate(start, end)) for start, end in itertools.pairwise(looks)]
    outcome.curves += [
        Curve("Rate with a snapshot held open", "s", "tasks/s",
              {"handlers started": rates, "offered": [(each.at, rate) for each in looks]}),
        Curve("Dead rows with a snapshot held open", "s", "dead rows in outbox and lease",
              {"dead": [(each.at, float(each.dead)) for each in looks]}),
    ]  # fmt: skip
