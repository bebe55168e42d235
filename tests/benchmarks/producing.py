"""Starts producers beside a pipeline or alone, lets them begin together and reads their answers."""

import json
from collections.abc import Sequence
from typing import Any

from benchmarks.crew import Crew
from benchmarks.measured import Sample
from benchmarks.meter import Meter
from benchmarks.pipeline import Pipeline

_PATIENCE = 600.0


def make_ready(crew: Crew, kind: str, counts: Sequence[int], rate: float = 0.0) -> list[str]:
    """Start a producer for each count and wait until all could begin; returns their names."""
    names = [f"{kind}-{number}" for number in range(len(counts))]
    for name, count in zip(names, counts, strict=True):
        crew.start(name, "benchmarks.loads", kind, str(count), str(rate))
    for name in names:
        crew.says(name, "ready\n")
    return names


def through(pipeline: Pipeline, kind: str, count: int, rate: float = 0.0) -> Sample:
    """Start a pipeline and one producer: from its first call to the last settlement."""
    pipeline.start()
    names = make_ready(pipeline.crew, kind, [count], rate)
    meter = Meter(pipeline.database_url, pipeline.messages)
    meter.count()
    meter.begin()
    begin(pipeline.crew, names)
    pipeline.drained(count)
    meter.end()
    ran = pipeline.seen()
    pipeline.crew.stop()
    pipeline.require_once(count)
    return meter.sample(count, delays=ran.delays)


def begin(crew: Crew, names: Sequence[str]) -> None:
    """Let them begin."""
    for name in names:
        crew.tell(name, "go")


def answers(crew: Crew, names: Sequence[str]) -> list[dict[str, Any]]:
    """Wait for their answers."""
    for name in names:
        crew.ended(name, _PATIENCE)
    return [json.loads(crew.log(name).read_text("utf-8").splitlines()[-1]) for name in names]
