"""What a round trip costs each driver, and what that leaves for an effect or an enqueue."""

import json
from typing import Final

from benchmarks.bench import Bench, Outcome, Table
from benchmarks.crew import Crew
from benchmarks.roundtrips import PSYCOPG, PSYCOPG_ASYNC, SESSION, SESSION_ASYNC, Cost

_PATIENCE: Final = 120.0
_EFFECT: Final = 5
"""Round trips of an effect: BEGIN, key, business, settlement, COMMIT."""


def run(bench: Bench) -> Outcome:
    """Measure the drivers alone."""
    costs = _measured(bench)
    rows = tuple(
        (name, f"{1e6 * each['median']:,.0f}", f"{1e6 * each['cpu']:,.0f}")
        for name, each in costs.items()
    )
    columns = ("through", "median µs", "CPU-µs of the client")
    outcome = Outcome(tables=[Table("One SELECT of a constant", columns, rows)])
    outcome.notes += [
        *(_effect_limit(name, costs[name]) for name in (PSYCOPG_ASYNC, SESSION_ASYNC)),
        *(_enqueue_limit(name, costs[name]) for name in (PSYCOPG, SESSION)),
    ]
    return outcome


def _measured(bench: Bench) -> dict[str, Cost]:
    url = bench.servers.database()
    with Crew(bench.run_directory(), {"TASKBELL_DATABASE_URL": url}) as crew:
        crew.start("roundtrips", "benchmarks.roundtrips", str(max(300, bench.size.enqueues // 2)))
        crew.ended("roundtrips", _PATIENCE)
        told = crew.log("roundtrips").read_text("utf-8").splitlines()[-1]
    bench.servers.sweep()
    costs: dict[str, Cost] = json.loads(told)
    return costs


def _effect_limit(name: str, cost: Cost) -> str:
    return (
        f"An effect is {_EFFECT} round trips: through {name} they alone cost the client "
        f"{1e6 * _EFFECT * cost['cpu']:,.0f} CPU-µs, whatever taskbell adds."
    )


def _enqueue_limit(name: str, cost: Cost) -> str:
    return (
        f"An enqueue is one round trip: through {name} it cannot take less than "
        f"{1e3 * cost['median']:.2f} ms, and the server's own work for the rows comes on top."
    )
