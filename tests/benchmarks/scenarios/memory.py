"""Resident memory of relay and consumer while they work through many tasks: bounded and flat."""

import psycopg

from benchmarks import processes
from benchmarks.bench import Bench, Curve, Finding, Outcome
from benchmarks.pipeline import Pipeline, Shape, open_pipeline, preload, tasks
from taskbell.shared.database import conninfo

_LIMITS = {"consumer": 90.0, "relay": 70.0}
_STEPS = 5
_FLAT = 1.1


def run(bench: Bench) -> Outcome:
    """Look after every fifth of the tasks."""
    outcome = Outcome()
    step = bench.size.memory // _STEPS
    lines: dict[str, list[tuple[float, float]]] = {name: [] for name in _LIMITS}
    with open_pipeline(bench, Shape(consumers=1)) as pipeline:
        pipeline.start()
        for done in range(1, _STEPS + 1):
            _work_through(pipeline, step, done)
            for name, process in (("consumer", "consumer-0"), ("relay", "relay")):
                resident = processes.resident_of(pipeline.crew.pid(process))
                lines[name].append((float(done * step), resident))
    bench.servers.sweep()
    outcome.curves.append(Curve("Resident memory", "tasks worked through", "MB", lines))
    for name, limit in _LIMITS.items():
        # The first fifth fills pools and caches; from there on it must not grow.
        first, last = lines[name][0][1], lines[name][-1][1]
        outcome.findings.append(
            Finding(
                f"memory, {name}", f"<= {limit:.0f} MB after {bench.size.memory:,} tasks, flat",
                f"{last:.0f} MB ({first:.0f} MB after the first fifth)",
                last <= limit and last <= _FLAT * first,
            )
        )  # fmt: skip
    return outcome


def _work_through(pipeline: Pipeline, step: int, turn: int) -> None:
    with psycopg.connect(conninfo(pipeline.database_url)) as connection:
        preload(connection, tasks(step))
    pipeline.drained(turn * step, 600.0)
