"""Idle latency: from before the enqueue call to the handler's start, with everybody asleep."""

from collections.abc import Callable

from benchmarks import producing
from benchmarks.bench import Bench, Curve, Finding, Outcome, Table
from benchmarks.measured import Sample, quantile
from benchmarks.peers import running
from benchmarks.peers.catalogue import PEERS
from benchmarks.pipeline import Shape, open_pipeline
from benchmarks.turns import in_turn

_OURS = {
    "taskbell, doorbell, RabbitMQ": (Shape(consumers=1), 7.0, 20.0),
    "taskbell brokerless": (Shape(consumers=1, brokered=False), 5.5, 12.0),
}
_SHARES = (0.5, 0.9, 0.95, 0.99)
_TITLE = "Idle latency, ms: before the enqueue call → handler starts"


def run(bench: Bench) -> Outcome:
    """Measure ours and, once each, the peers."""
    outcome = Outcome()
    systems: dict[str, Callable[[], Sample]] = {
        name: _ours(bench, shape) for name, (shape, _, _) in _OURS.items()
    }
    if bench.size.peers:
        systems |= {peer.name: _peer(bench, peer.name) for peer in PEERS}
    series = in_turn(bench, systems, rounds=1)
    delays = {name: each.delays for name, each in series.items()}
    table_rows = tuple(
        (name, str(len(found)), *(f"{1e3 * quantile(found, share):.1f}" for share in _SHARES))
        for name, found in delays.items()
    )
    outcome.tables.append(Table(_TITLE, ("system", "n", "p50", "p90", "p95", "p99"), table_rows))
    outcome.curves.append(
        Curve(
            _TITLE, "ms", "% of tasks",
            {name: [(1e3 * quantile(found, n / 100), float(n)) for n in range(100)]
             for name, found in delays.items()},
        )
    )  # fmt: skip
    for name, (_, middle, late) in _OURS.items():
        p50, p99 = (1e3 * quantile(delays[name], share) for share in (0.5, 0.99))
        outcome.findings.append(
            Finding(
                f"idle latency, {name}", f"p50 <= {middle} ms, p99 <= {late} ms",
                f"p50 {p50:.1f} ms, p99 {p99:.1f} ms", p50 <= middle and p99 <= late,
                f"others used {100 * series[name].foreign:.0f} % of a core meanwhile",
            )
        )  # fmt: skip
    return outcome


def _peer(bench: Bench, name: str) -> Callable[[], Sample]:
    return lambda: running.idle(bench, name)


def _ours(bench: Bench, shape: Shape) -> Callable[[], Sample]:
    def run_once() -> Sample:
        with open_pipeline(bench, shape) as pipeline:
            return producing.through(pipeline, "idle", bench.size.samples)

    return run_once
