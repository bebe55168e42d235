"""The HTTP interface beside the same framework doing the bare minimum by hand."""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from benchmarks import counters, processes
from benchmarks.bench import Bench, Finding, Outcome, Table
from benchmarks.crew import Crew
from benchmarks.floors.web import CONNECTIONS
from benchmarks.measured import MICRO, quantile
from services.guarded import Port
from taskbell.shared import access
from taskbell.shared.access import Grant
from taskbell.shared.database import Database, DedicatedConnection

_FLOOR: Final = "bare FastAPI"
_OURS: Final = "taskbell api"
_MODULES: Final = {_FLOOR: "benchmarks.floors.web", _OURS: "taskbell.producer.api"}
_KINDS: Final = {"post": "POST /tasks", "get": "GET /tasks/{id}"}
_RATE_SHARE: Final = 0.7
_LATE_SHARE: Final = 1.5
_OFFERED: Final = 0.5
_STRETCH: Final = 0.3
# A stall of the machine makes a hundredth of a stretch late by itself: the median of many tells.
_CALM_STRETCHES: Final = 4
# Each connection plans a statement anew for five times, and only then keeps a plan.
_WARM: Final = 400
_PATIENCE: Final = 60.0


@dataclass(frozen=True, slots=True)
class Stretch:
    """What one client saw in a stretch of time, and what it cost the others."""

    requests: int
    seconds: float
    latencies: tuple[float, ...]
    server: float
    """CPU seconds of the server's process."""
    postgres: float
    statements: int
    foreign: float

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds


@dataclass(frozen=True)
class Visit:
    """One system in one round: how fast it can, and how late it is at the offered rate."""

    fast: Stretch
    calm: tuple[Stretch, ...]


def run(bench: Bench) -> Outcome:
    """Run both in turn, each in a process and on a database of its own."""
    visits: dict[tuple[str, str], list[Visit]] = {}
    offered: dict[str, float] = {}
    for turn in range(bench.size.rounds):
        for system in _MODULES:
            for kind, visit in _visits(bench, system, offered).items():
                visits.setdefault((system, kind), []).append(visit)
                told = f"{visit.fast.rate:,.0f}/s"
                bench.say(f"  {turn + 1}. {system}, {_KINDS[kind]}: {told}")
            bench.servers.sweep()
    outcome = Outcome()
    for kind, name in _KINDS.items():
        rows = tuple(_row(system, visits[system, kind]) for system in _MODULES)
        outcome.tables.append(Table(name, _COLUMNS, rows, plot="requests/s"))
        outcome.findings += _findings(name, visits[_FLOOR, kind], visits[_OURS, kind])
    outcome.notes.append(
        f"One process of the server with {CONNECTIONS} connections, one client with 16 kept "
        "connections. Latencies are of requests due by the clock, at half of the rate that the "
        "bare framework reached in the same round: the medians of what each stretch of "
        f"{bench.size.floor_seconds * _STRETCH:.1f} s showed, and the worst of them. A POST is one "
        "commit, synchronous."
    )
    return outcome


def _visits(bench: Bench, system: str, offered: dict[str, float]) -> dict[str, Visit]:
    """Measure one system; the floor, which comes first, decides what is offered in this round."""
    url = bench.servers.database()
    port = Port()
    environment = {
        "TASKBELL_DATABASE_URL": url,
        "TASKBELL_API_PORT": str(port),
        "TASKBELL_LOG_FORMAT": "json",
        "BENCH_KEY": asyncio.run(_new_key(url)),
    }
    seconds = bench.size.floor_seconds * _STRETCH
    visits: dict[str, Visit] = {}
    try:
        with Crew(bench.run_directory(), environment, bench.packages) as crew:
            crew.start("server", _MODULES[system])
            crew.says("server", '"event": "role_started"')
            for kind in _KINDS:
                client = _Client(crew, url, port.number, kind)
                client.ask(0.0, least=_WARM)
                fast = client.ask(seconds)
                if system == _FLOOR:
                    offered[kind] = _OFFERED * fast.rate
                calm = [client.ask(seconds, offered[kind]) for _ in range(_CALM_STRETCHES)]
                visits[kind] = Visit(fast, tuple(calm))
    finally:
        port.release()
    return visits


async def _new_key(url: str) -> str:
    connection = DedicatedConnection(Database(url), "bench")
    try:
        grant = Grant("bench", ("submit", "read"))
        return (await access.create(connection, grant, actor="bench")).text
    finally:
        await connection.close()


class _Client:
    """Starts a client for each stretch and reads the clocks around its work."""

    def __init__(self, crew: Crew, url: str, port: int, kind: str) -> None:
        self._crew = crew
        self._url = url
        self._port = port
        self._kind = kind
        self._count = 0

    def ask(self, seconds: float, rate: float = 0.0, least: int = 1) -> Stretch:
        self._count += 1
        name = f"client-{self._kind}-{self._count}"
        given = (str(self._port), self._kind, str(seconds), str(rate), str(least))
        self._crew.start(name, "benchmarks.web_loads", *given)
        self._crew.says(name, "ready\n")
        statements = counters.read(self._url).statements
        before, busy, server, began = self._look()
        self._crew.tell(name, "go")
        self._crew.ended(name, _PATIENCE)
        after, busy_after, server_after, ended = self._look()
        told: dict[str, Any] = json.loads(self._crew.log(name).read_text("utf-8").splitlines()[-1])
        spent = processes.difference(before, after)
        postgres, served = spent.get("postgres", 0.0), server_after - server
        ours = served + postgres + spent.get("beam", 0.0) + told["cpu"]
        return Stretch(
            requests=told["requests"],
            seconds=told["seconds"],
            latencies=tuple(told["latencies"]),
            server=served,
            postgres=postgres,
            # The last reading counts itself.
            statements=counters.read(self._url).statements - statements - 1,
            foreign=max(0.0, busy_after - busy - ours) / (ended - began),
        )

    def _look(self) -> tuple[dict[str, float], float, float, float]:
        server = processes.cpu_of([self._crew.pid("server")])
        return processes.cpu_by_group(), processes.busy(), server, time.monotonic()


_COLUMNS: Final = (
    "system", "requests/s", "spread", "offered/s", "p50 ms", "p99 ms", "worst p99", "server µs",
    "postgres µs", "statements", "runs", "foreign CPU",
)  # fmt: skip


def _row(system: str, visits: Sequence[Visit]) -> tuple[str, ...]:
    rates = [each.fast.rate for each in visits]
    calm = [each for visit in visits for each in visit.calm]

    def each_of(value: Callable[[Stretch], float]) -> float:
        return median(value(each.fast) / each.fast.requests for each in visits)

    return (
        system, f"{median(rates):,.0f}", f"{min(rates):,.0f} to {max(rates):,.0f}",
        f"{median(each.rate for each in calm):,.0f}",
        f"{1e3 * median(_late(visits, 0.5)):.2f}", f"{1e3 * median(_late(visits, 0.99)):.2f}",
        f"{1e3 * max(_late(visits, 0.99)):.2f}",
        f"{MICRO * each_of(lambda each: each.server):,.0f}",
        f"{MICRO * each_of(lambda each: each.postgres):,.0f}",
        f"{each_of(lambda each: each.statements):.2f}",
        str(len(visits)), f"{100 * max(each.fast.foreign for each in visits):.0f} %",
    )  # fmt: skip


def _late(visits: Sequence[Visit], share: float) -> list[float]:
    """How late this share of the requests was at most, in each of the calm stretches."""
    return [quantile(sorted(each.latencies), share) for visit in visits for each in visit.calm]


def _findings(name: str, floor: Sequence[Visit], ours: Sequence[Visit]) -> list[Finding]:
    rate, bare = (median(each.fast.rate for each in visits) for visits in (ours, floor))
    late, bare_late = (median(_late(visits, 0.99)) for visits in (ours, floor))
    spent = ours[0].fast
    return [
        Finding(
            name, f">= {_RATE_SHARE} x the bare framework",
            f"{rate / bare:.2f} x ({rate:,.0f} of {bare:,.0f}/s)", rate >= _RATE_SHARE * bare,
            f"CPU-µs of the server per request: {MICRO * spent.server / spent.requests:.0f}",
        ),
        Finding(
            f"{name}, p99", f"<= {_LATE_SHARE} x the bare framework's",
            f"{late / bare_late:.2f} x ({1e3 * late:.2f} and {1e3 * bare_late:.2f} ms)",
            late <= _LATE_SHARE * bare_late, "both offered half of what the bare framework can",
        ),
    ]  # fmt: skip
