"""Ten thousand leases in flight: what keeping them costs everybody."""

import time

import psycopg

from benchmarks import counters, processes
from benchmarks.bench import Bench, Finding, Outcome, Table
from benchmarks.pipeline import Shape, open_pipeline, preload, tasks
from taskbell.shared.database import conninfo

_CALM_SECONDS = 3.0
_MOST = 0.05


def run(bench: Bench) -> Outcome:
    """Let one consumer hold them all and watch it for two beats of the lease."""
    outcome = Outcome()
    count = bench.size.leases
    span = max(10.0, bench.size.idle_seconds * 2)  # a beat every ten seconds: lease 30 s / 3
    with open_pipeline(
        bench, Shape(consumers=1, brokered=False, slots=count, queue="hold")
    ) as pipeline:
        pipeline.start()
        with psycopg.connect(conninfo(pipeline.database_url)) as connection:
            preload(connection, tasks(count, kind="hold", queue="hold"))
        pipeline.crew.wait("all run", lambda: pipeline.seen().count >= count, 120.0)
        time.sleep(_CALM_SECONDS)
        counters.forget_kinds(pipeline.database_url)
        before = processes.cpu_by_group()
        time.sleep(span)
        used = processes.difference(before, processes.cpu_by_group())
        kinds = counters.kinds(pipeline.database_url)
        held = counters.rows(pipeline.database_url, "SELECT count(*) FROM taskbell.lease")[0][0]
        pipeline.crew.stop()
    bench.servers.sweep()
    beats = kinds.get("heartbeat")
    rows = tuple((group, f"{100 * each / span:.2f} %") for group, each in used.items())
    outcome.tables.append(Table(f"{held:,} leases in flight: share of one core", ("", "CPU"), rows))
    if beats is not None:
        outcome.notes.append(
            f"{beats.calls} heartbeat statements in {span:.0f} s extended {beats.rows:,} leases in "
            f"{1e3 * beats.seconds:,.0f} ms of Postgres' time and {beats.wal:,} B of WAL."
        )
    total = (used["python"] + used["postgres"]) / span
    outcome.findings.append(
        Finding(
            f"{held:,} leases in flight", "heartbeats < 5 % of one core in all",
            f"{100 * total:.1f} % for the consumer and Postgres, all they do", total < _MOST,
        )
    )  # fmt: skip
    return outcome
