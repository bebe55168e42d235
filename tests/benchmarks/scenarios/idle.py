"""What everything costs while there is nothing to do."""

import time

from benchmarks import processes
from benchmarks.bench import Bench, Finding, Outcome, Table
from benchmarks.pipeline import Shape, open_pipeline
from benchmarks.servers import STATISTICS_SECONDS

_CALM_SECONDS = 3.0
_ALL = 0.03
_RELAY = 0.01
# RabbitMQ's own default; the other scenarios let it tell its counters more often.
_STATISTICS_SECONDS = 5.0


def run(bench: Bench) -> Outcome:
    """Watch relay, two consumers, Postgres and RabbitMQ for a while."""
    outcome = Outcome()
    span = bench.size.idle_seconds
    bench.servers.rabbitmq.gather_statistics(_STATISTICS_SECONDS)
    alone = _alone(span)
    with open_pipeline(bench, Shape()) as pipeline:
        pipeline.start()
        time.sleep(_CALM_SECONDS)
        relay = [pipeline.crew.pid("relay")]
        consumers = [pipeline.crew.pid(name) for name in pipeline.consumers]
        before, relay_before, consumers_before = _look(relay, consumers)
        time.sleep(span)
        after, relay_after, consumers_after = _look(relay, consumers)
    bench.servers.sweep()
    used = {group: each / span for group, each in processes.difference(before, after).items()}
    relay_used = (relay_after - relay_before) / span
    bench.servers.rabbitmq.gather_statistics(STATISTICS_SECONDS)
    used |= {"relay": relay_used, "two consumers": (consumers_after - consumers_before) / span}
    total = used["postgres"] + used.get("beam", 0.0) + used["python"]
    used["Postgres and RabbitMQ alone, before"] = alone
    rows = tuple((name, f"{100 * each:.2f} %") for name, each in used.items())
    outcome.tables.append(Table("Nothing to do: share of one core", ("processes", "CPU"), rows))
    outcome.findings += [
        Finding("idle cost, all processes", "< 3 % of one core", f"{100 * total:.2f} %",
                total < _ALL,
                f"Postgres and RabbitMQ with nobody connected: {100 * alone:.2f} %"),
        Finding("idle cost, relay", "< 1 % of one core", f"{100 * relay_used:.2f} %",
                relay_used < _RELAY),
    ]  # fmt: skip
    return outcome


def _alone(span: float) -> float:
    """What the servers use with nobody connected."""
    before = processes.cpu_by_group()
    time.sleep(span)
    used = processes.difference(before, processes.cpu_by_group())
    return (used["postgres"] + used.get("beam", 0.0)) / span


def _look(relay: list[int], consumers: list[int]) -> tuple[dict[str, float], float, float]:
    return processes.cpu_by_group(), processes.cpu_of(relay), processes.cpu_of(consumers)
