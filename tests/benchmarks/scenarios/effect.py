"""Transactional effects: dedup key, one business UPDATE and the settlement, one commit for each."""

from collections.abc import Callable

from benchmarks.bench import Bench, Finding, Outcome
from benchmarks.counters import rows
from benchmarks.crew import RunFailed
from benchmarks.floors import scripts
from benchmarks.floors.pgbench import BATCH, Floor
from benchmarks.handlers import LEDGER
from benchmarks.measured import Sample
from benchmarks.pipeline import Shape, drain_through, open_pipeline
from benchmarks.turns import in_turn, table

FLOOR = "pgbench effect, 32 clients"
_KINDS = {"charge": ("effect by Session", 0.5), "charge_psycopg": ("effect by psycopg", 0.65)}
_APPLICATIONS = {"charge": "session_handlers", "charge_psycopg": "handlers"}
_IN_FLIGHT = 32
_CHARGED = """
SELECT (SELECT sum(balance) FROM bench.account) AS charged,
       (SELECT count(*) FROM taskbell.effect) AS keys
"""


def run(bench: Bench) -> Outcome:
    """Measure floor and both drivers in turn."""
    outcome = Outcome()
    systems: dict[str, Callable[[], Sample]] = {FLOOR: lambda: floor(bench)}
    for kind, (name, _) in _KINDS.items():
        systems[name] = _ours(bench, kind)
    notes = dict.fromkeys(systems, "claimed in groups; key, UPDATE and settlement in a commit")
    notes[FLOOR] = "the same commit of leases that were claimed before"
    series = in_turn(bench, systems, notes=notes)
    outcome.tables.append(table("Transactional effects, 32 in flight, two consumers", series))
    limit = series[FLOOR].rate
    for name, share in _KINDS.values():
        ours = series[name]
        outcome.findings.append(
            Finding(
                name, f">= {share} x its pgbench floor",
                f"{ours.rate / limit:.2f} x ({ours.rate:,.0f} of {limit:,.0f}/s)",
                ours.rate >= share * limit,
                f"CPU-µs per task: python {ours.micros('python'):,.0f}, "
                f"postgres {ours.micros('postgres'):,.0f}",
            )
        )  # fmt: skip
    return outcome


def floor(bench: Bench) -> Sample:
    """The very transaction by pgbench."""
    on = Floor(bench, bench.servers.database())
    batches = max(1, bench.size.effects // _IN_FLIGHT // BATCH)
    on.run(scripts.enqueue_many(), clients=_IN_FLIGHT, turns=batches)
    on.run(scripts.claim_many(), clients=_IN_FLIGHT, turns=batches)
    turns = batches * BATCH
    return on.run(scripts.transactional_effect(), clients=_IN_FLIGHT, tasks=1, turns=turns)


def psycopg(bench: Bench) -> Sample:
    """The effect through psycopg, once."""
    return _ours(bench, "charge_psycopg")()


def _ours(bench: Bench, kind: str) -> Callable[[], Sample]:
    def run_once() -> Sample:
        count = bench.size.effects
        url = bench.servers.database()
        rows(url, LEDGER)
        shape = Shape(slots=_IN_FLIGHT // 2, queue=kind, application=_APPLICATIONS[kind])
        with open_pipeline(bench, shape, url) as pipeline:
            pipeline.start()
            sample = drain_through(pipeline, count, kind)
        (found,) = rows(url, _CHARGED)
        if tuple(found) != (count, count):
            raise RunFailed(f"{count} effects were asked for, and this happened: {found}")
        return sample

    return run_once
