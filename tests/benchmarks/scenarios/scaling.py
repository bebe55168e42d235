"""One, two, four, eight consumer processes: past the cores the rate must not fall."""

from collections.abc import Callable

from benchmarks.bench import Bench, Curve, Finding, Outcome
from benchmarks.measured import Sample
from benchmarks.pipeline import Shape, drain
from benchmarks.turns import in_turn, table

_CONSUMERS = (1, 2, 4, 8)
_KEPT = 0.9


def run(bench: Bench) -> Outcome:
    """Drain the same backlog by more and more consumers."""
    outcome = Outcome()
    count = max(2_000, bench.size.drain // 2)
    systems = {_name(each): _drained_by(bench, each, count) for each in _CONSUMERS}
    series = in_turn(bench, systems, rounds=min(2, bench.size.rounds))
    rates = {each: series[_name(each)].rate for each in _CONSUMERS}
    title = f"Drain of {count:,} tasks through RabbitMQ by number of consumers"
    outcome.tables.append(table(title, series))
    points = [(float(each), rate) for each, rate in rates.items()]
    outcome.curves.append(Curve(title, "consumers", "tasks/s", {"taskbell": points}))
    best, last = max(rates.values()), rates[_CONSUMERS[-1]]
    outcome.findings.append(
        Finding(
            "1, 2, 4, 8 consumers", "no anti-scaling beyond 10 % past the cores",
            ", ".join(f"{each}: {rate:,.0f}/s" for each, rate in rates.items()),
            last >= _KEPT * best, f"with eight {100 * last / best:.0f} % of the best",
        )
    )  # fmt: skip
    return outcome


def _name(consumers: int) -> str:
    return f"{consumers} consumer{'s' if consumers > 1 else ''}"


def _drained_by(bench: Bench, consumers: int, count: int) -> Callable[[], Sample]:
    return lambda: drain(bench, count, Shape(consumers=consumers))
