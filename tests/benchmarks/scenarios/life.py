"""Whole lives with a producer running, beside the same lives in plain SQL; then at half rate."""

from dataclasses import replace

from benchmarks import counters, producing
from benchmarks.bench import Bench, Curve, Finding, Outcome, Table
from benchmarks.floors import scripts
from benchmarks.floors.pgbench import Floor
from benchmarks.measured import Sample, Series, quantile
from benchmarks.pipeline import Shape, open_pipeline
from benchmarks.turns import in_turn, table

FLOOR = "pgbench whole life"
RELAY = "taskbell, producer running"
_SHARE = 0.5
_LOAD = 0.5
_NOTES = {
    FLOOR: "our four statements, batches of 100, four clients, no Python",
    RELAY: "batches of 100 enqueued, announced, claimed, run, settled",
}
_COMPLETED = "SELECT count(*) FROM taskbell.task WHERE status = 'COMPLETED'"


def run(bench: Bench) -> Outcome:
    """Measure floor and product in turn, and the latency at half the rate."""
    outcome = Outcome()
    systems = {FLOOR: lambda: floor(bench), RELAY: lambda: stream(bench)}
    series = in_turn(bench, systems, notes=_NOTES)
    ours, limit = series[RELAY].rate, series[FLOOR].rate
    bench.known["life"] = ours
    outcome.tables.append(table("Whole lives with a producer running", series))
    outcome.findings.append(
        Finding(
            "whole life with a producer running",
            f">= {_SHARE} x the pgbench floor",
            f"{ours / limit:.2f} x ({ours:,.0f} of {limit:,.0f}/s)",
            ours >= _SHARE * limit,
            _costs(series[RELAY]),
        )
    )
    calm = steady(bench, _LOAD * ours)
    bench.servers.sweep()
    _tell_latency(outcome, calm, _LOAD * ours)
    return outcome


def floor(bench: Bench) -> Sample:
    """Our statements by pgbench; what was really completed counts."""
    on = Floor(bench, bench.servers.database())
    sample = on.run(scripts.whole_life(), clients=4, seconds=bench.size.floor_seconds)
    return replace(sample, tasks=int(counters.rows(on.database_url, _COMPLETED)[0][0]))


def stream(bench: Bench) -> Sample:
    """From the producer's first call to the last settlement."""
    with open_pipeline(bench, Shape()) as pipeline:
        return producing.through(pipeline, "stream", bench.size.drain)


def steady(bench: Bench, rate: float) -> Sample:
    """An open-loop producer at this rate; latencies from when a task should have been sent."""
    with open_pipeline(bench, Shape()) as pipeline:
        return producing.through(pipeline, "steady", round(rate * bench.size.load_seconds), rate)


def _costs(series: Series) -> str:
    parts = [f"{group} {series.micros(group):,.0f}" for group in ("python", "postgres", "beam")]
    return "producer included, CPU-µs per task: " + ", ".join(parts)


def _tell_latency(outcome: Outcome, sample: Sample, rate: float) -> None:
    delays = sorted(sample.delays)
    shares = (0.5, 0.9, 0.95, 0.99, 0.999)
    row = (f"{rate:,.0f}/s", *(f"{1e3 * quantile(delays, each):.1f}" for each in shares))
    title = "Latency at half that rate, open loop: due time to handler, ms"
    outcome.tables.append(Table(title, ("rate", "p50", "p90", "p95", "p99", "p99.9"), (row,)))
    points = [(1e3 * quantile(delays, n / 1000), n / 10) for n in range(0, 1000, 5)]
    outcome.curves.append(Curve(title, "ms", "% of tasks", {"taskbell": points}))
