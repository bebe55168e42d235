"""Enqueueing: one by one, inside a business transaction, by the thousand, with the bell."""

from collections.abc import Callable
from statistics import median
from typing import Final

import psycopg

from benchmarks import producing
from benchmarks.bench import Bench, Finding, Outcome, Table
from benchmarks.counters import rows
from benchmarks.crew import Crew
from benchmarks.floors import scripts
from benchmarks.floors.pgbench import Floor
from benchmarks.loads import BUSINESS_TABLE
from benchmarks.measured import Sample, Series
from benchmarks.meter import Meter
from benchmarks.peers import running
from benchmarks.peers.catalogue import PEERS
from benchmarks.turns import in_turn, table
from taskbell.shared.database import conninfo

_FLOORS: Final = {1: "pgbench enqueue, 1 client", 8: "pgbench enqueue, 8 clients"}
_OURS: Final = {1: "enqueue, 1 producer", 8: "enqueue, 8 producers"}
_SESSION: Final = "enqueue by Session, 1 producer"
_RUNG: Final = "enqueue, 8 producers, bell armed"
_ADMITTED: Final = {1: "enqueue, 1 producer, admission", 8: "enqueue, 8 producers, admission"}
_SEALED: Final = "enqueue, 1 producer, sealed"
_MANY: Final = "enqueue_many of 10 000"
_MANY_FLOOR: Final = "pgbench enqueue of 100, 1 client"
_SHARE: Final = 0.5
_MANY_RATE: Final = 25_000
_BELL_SHARE: Final = 0.97
_ADMITTED_SHARE: Final = 0.95
_ADDED: Final = {"psycopg": 0.3, "session": 0.5}
# A listener that is awake: everybody looks at the row, nobody rings, as under load.
_AWAKE: Final = """
INSERT INTO taskbell.bell (listener_id, awake_until, listen_until)
VALUES ('bench', clock_timestamp() + interval '1 hour', clock_timestamp() + interval '1 hour')
"""
# A bounded queue that was measured and has room: what admission looks at each time.
_BOUNDED: Final = """
INSERT INTO taskbell.queue (name, max_depth, depth, oldest_age, drain_rate, measured_at)
VALUES ('bench', 1000000000, 1000, 1, 1000, clock_timestamp())
"""


def run(bench: Bench) -> Outcome:
    """Measure all of it in turn."""
    outcome = Outcome()
    count = bench.size.enqueues
    systems: dict[str, Callable[[], Sample]] = {
        _FLOORS[1]: lambda: _floor(bench, scripts.enqueue_one(), 1, 1),
        _OURS[1]: lambda: alone(bench, "one_psycopg", [count]),
        _SESSION: lambda: alone(bench, "one_session", [count]),
        _FLOORS[8]: lambda: _floor(bench, scripts.enqueue_one(), 8, 1),
        _OURS[8]: lambda: alone(bench, "one_psycopg", [count // 4] * 8),
        _RUNG: lambda: alone(bench, "one_psycopg", [count // 4] * 8, ahead=_AWAKE),
        _ADMITTED[1]: lambda: admitted(bench, [count]),
        _ADMITTED[8]: lambda: admitted(bench, [count // 4] * 8),
        _SEALED: lambda: alone(bench, "one_sealed", [count]),
        _MANY_FLOOR: lambda: _floor(bench, scripts.enqueue_many(), 1, 100),
        _MANY: lambda: alone(bench, "many", [max(10_000, bench.size.drain // 10_000 * 10_000)]),
    }
    notes = dict.fromkeys(systems, "task and outbox entry in a commit")
    notes[_MANY] = notes[_MANY_FLOOR] = "task and outbox entry, a commit a call"
    peers: list[str] = []
    if bench.size.peers:
        for peer in PEERS:
            name = f"{peer.name}, 1 producer"
            peers.append(name)
            systems[name] = _peer(bench, peer.name)
            notes[name] = peer.enqueue_note
    series = in_turn(bench, systems, few=peers, notes=notes)
    outcome.tables.append(table("Enqueueing", series))
    outcome.findings += [*_shares(series), *_peers(series), _bulk(series), _bell(series)]
    outcome.findings += _admission(series)
    _tell_added(bench, outcome)
    return outcome


def _floor(bench: Bench, script: str, clients: int, tasks: int) -> Sample:
    floor = Floor(bench, bench.servers.database())
    return floor.run(script, clients=clients, tasks=tasks, seconds=bench.size.floor_seconds)


def _peer(bench: Bench, name: str) -> Callable[[], Sample]:
    return lambda: running.enqueue(bench, name)


def admitted(bench: Bench, counts: list[int]) -> Sample:
    """Producers that ask for admission to a bounded queue, and get it."""
    return alone(bench, "one_admitted", counts, ahead=_BOUNDED)


def alone(bench: Bench, kind: str, counts: list[int], *, ahead: str = "") -> Sample:
    """Producers of this kind with nobody who consumes; ``ahead``: SQL that comes before."""
    url = bench.servers.database()
    if ahead:
        rows(url, ahead)
    with Crew(bench.run_directory(), {"TASKBELL_DATABASE_URL": url}) as crew:
        names = producing.make_ready(crew, kind, counts)
        meter = Meter(url)
        meter.count()
        meter.begin()
        producing.begin(crew, names)
        told = producing.answers(crew, names)
        meter.end()
    rate = sum(each["tasks"] / each["seconds"] for each in told)
    total = sum(counts)
    sample = meter.sample(total, total / rate)
    # They have ended, and their CPU with them: they told it themselves.
    sample.cpu["python"] = sum(each["cpu"] for each in told)
    return sample


def _shares(series: dict[str, Series]) -> list[Finding]:
    findings: list[Finding] = []
    for clients, name in _OURS.items():
        ours, limit = series[name].rate, series[_FLOORS[clients]].rate
        findings.append(
            Finding(
                name, f">= {_SHARE} x pgbench's floor",
                f"{ours / limit:.2f} x ({ours:,.0f} of {limit:,.0f}/s)", ours >= _SHARE * limit,
                f"CPU-µs per task: python {series[name].micros('python'):.0f}, "
                f"postgres {series[name].micros('postgres'):.0f}",
            )
        )  # fmt: skip
    return findings


def _peers(series: dict[str, Series]) -> list[Finding]:
    rivals = [each for each in series.values() if each.system.partition(",")[0] in _names()]
    if not rivals:
        return []
    best = max(rivals, key=lambda each: each.rate)
    ours = series[_OURS[1]].rate
    measured = f"{ours:,.0f}/s; best is {best.system.partition(',')[0]} with {best.rate:,.0f}/s"
    goal = "ahead of every peer that commits or confirms"
    return [Finding(_OURS[1], goal, measured, ours > best.rate)]


def _names() -> set[str]:
    return {peer.name for peer in PEERS}


def _bulk(series: dict[str, Series]) -> Finding:
    rate = series[_MANY].rate
    reason = (
        f"CPU-µs per task: python {series[_MANY].micros('python'):.0f}, "
        f"postgres {series[_MANY].micros('postgres'):.0f}; "
        f"pgbench, one client: {series[_MANY_FLOOR].rate:,.0f}/s"
    )
    return Finding(
        _MANY, f">= {_MANY_RATE:,} tasks/s", f"{rate:,.0f}/s", rate >= _MANY_RATE, reason
    )


def _bell(series: dict[str, Series]) -> Finding:
    share = series[_RUNG].rate / series[_OURS[8]].rate
    return Finding(
        "doorbell", "costs < 3 % of enqueue throughput with 8 producers",
        f"{100 * (1 - share):.1f} %", share > _BELL_SHARE,
        "less than the runs' own spread cannot be told apart",
    )  # fmt: skip


def _admission(series: dict[str, Series]) -> list[Finding]:
    findings: list[Finding] = []
    for clients, name in _ADMITTED.items():
        with_it, without = series[name], series[_OURS[clients]]
        share = with_it.rate / without.rate
        findings.append(
            Finding(
                name, "costs < 5 % of enqueue throughput", f"{100 * (1 - share):.1f} %",
                share > _ADMITTED_SHARE,
                "CPU-µs per task with it and without: postgres "
                f"{with_it.micros('postgres'):.0f} and {without.micros('postgres'):.0f}, python "
                f"{with_it.micros('python'):.0f} and {without.micros('python'):.0f}",
            )
        )  # fmt: skip
    return findings


def _tell_added(bench: Bench, outcome: Outcome) -> None:
    found: list[tuple[str, ...]] = []
    for driver, limit in _ADDED.items():
        told = [_added(bench, f"added_{driver}") for _ in range(bench.size.rounds)]
        plain, full, added = (
            1e3 * median(each[name] for each in told) for name in ("plain", "full", "added")
        )
        found.append((driver, f"{plain:.2f}", f"{full:.2f}", f"{added:.2f}"))
        outcome.findings.append(
            Finding(
                f"enqueue inside a business transaction, {driver}",
                f"adds <= {limit} ms median", f"{added:.2f} ms", added <= limit,
            )
        )  # fmt: skip
    columns = ("through", "transaction alone, ms", "with enqueue, ms", "added, ms")
    outcome.tables.append(Table("Inside a business transaction (medians)", columns, tuple(found)))


def _added(bench: Bench, kind: str) -> dict[str, float]:
    url = bench.servers.database()
    with psycopg.connect(conninfo(url)) as connection:
        connection.execute(BUSINESS_TABLE.encode())
    with Crew(bench.run_directory(), {"TASKBELL_DATABASE_URL": url}) as crew:
        names = producing.make_ready(crew, kind, [bench.size.enqueues // 4])
        producing.begin(crew, names)
        (told,) = producing.answers(crew, names)
    bench.servers.sweep()
    return told
