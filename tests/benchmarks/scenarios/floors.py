"""The floors alone: what each of our statements, and a raw publisher, reach on this machine."""

from collections.abc import Callable
from dataclasses import replace

from sqlalchemy.engine import make_url

from benchmarks import counters
from benchmarks.bench import Bench, Outcome
from benchmarks.crew import RunFailed
from benchmarks.floors import amqp, scripts
from benchmarks.floors.pgbench import BATCH, Floor
from benchmarks.measured import Sample
from benchmarks.scenarios import effect, life
from benchmarks.turns import in_turn, table
from taskbell.producer import new_task_id
from taskbell.shared.limits import ANNOUNCEMENT_IDS

_CLIENTS = 4
_TURNS_A_SECOND = 30
_GONE = "SELECT count(*) FROM taskbell.task WHERE status <> 'PENDING'"
_DONE = "SELECT count(*) FROM taskbell.task WHERE status = 'COMPLETED'"


def run(bench: Bench) -> Outcome:
    """Run every script and both publishers in turn."""
    outcome = Outcome()
    ids = ",".join(f'"{new_task_id()}"' for _ in range(ANNOUNCEMENT_IDS))
    messages = 5_000 * bench.size.rounds
    chain = _Chain(bench)
    systems: dict[str, Callable[[], Sample]] = {
        "enqueue 1, 1 client": lambda: _one(bench, 1),
        "enqueue 1, 8 clients": lambda: _one(bench, 8),
        "enqueue 100": chain.enqueue,
        "announce 100 + claim 100 by id": chain.claim,
        "settle 100": chain.settle,
        "whole life, batches of 100": lambda: life.floor(bench),
        "transactional effect, 32 clients": lambda: effect.floor(bench),
        "raw AMQP, 1 id a message": lambda: amqp.publish(
            bench, ids[:38].encode(), messages, tasks=1
        ),
        "raw AMQP, 100 ids a message": lambda: amqp.publish(
            bench, ids.encode(), messages // 2, tasks=ANNOUNCEMENT_IDS
        ),
    }
    notes = dict.fromkeys(systems, "our very statements by pgbench, prepared, no Python")
    notes |= {
        name: "persistent, durable classic queue, confirmed, window of 1,000"
        for name in systems
        if name.startswith("raw")
    }
    series = in_turn(bench, systems, rounds=min(2, bench.size.rounds), notes=notes)
    outcome.tables.append(table("Floors", series))
    return outcome


def _one(bench: Bench, clients: int) -> Sample:
    floor = Floor(bench, bench.servers.database())
    seconds = bench.size.floor_seconds
    return floor.run(scripts.enqueue_one(), clients=clients, tasks=1, seconds=seconds)


class _Chain:
    """The same batches enqueued, claimed and settled: one floor begins where another ended."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._turns = round(_TURNS_A_SECOND * bench.size.floor_seconds)
        self._floor: Floor | None = None

    def enqueue(self) -> Sample:
        """Born in batches."""
        self._floor = Floor(self._bench, self._bench.servers.database())
        self._bench.servers.made.clear()  # the next two need it
        return self._run(scripts.enqueue_many())

    def claim(self) -> Sample:
        """Announced and claimed; what another client's mark held just then is passed over."""
        return replace(self._run(scripts.announce_and_claim()), tasks=self._count(_GONE))

    def settle(self) -> Sample:
        """Settled."""
        sample = self._run(scripts.settle_many())
        sample = replace(sample, tasks=self._count(_DONE))
        if self._floor is not None:
            name = make_url(self._floor.database_url).database or ""
            self._bench.servers.postgres.drop_database(name)
        return sample

    def _run(self, script: str) -> Sample:
        if self._floor is None:
            raise RunFailed("nothing was enqueued yet")
        return self._floor.run(script, clients=_CLIENTS, turns=self._turns, tasks=BATCH)

    def _count(self, query: str) -> int:
        return (
            0 if self._floor is None else int(counters.rows(self._floor.database_url, query)[0][0])
        )
