"""A backlog of no-op tasks, two consumers: through RabbitMQ, brokerless, and the peers."""

from collections.abc import Callable

from benchmarks.bench import Bench, Finding, Outcome
from benchmarks.measured import Sample, Series
from benchmarks.peers import running
from benchmarks.peers.catalogue import PEERS
from benchmarks.pipeline import Shape, drain
from benchmarks.turns import in_turn, table

RELAY = "taskbell"
BROKERLESS = "taskbell brokerless"
NOTES = {
    RELAY: "announced by id in groups, claimed, run, settled; durable; the record is kept",
    BROKERLESS: "the same without relay and broker",
}
_OURS = {RELAY: Shape(), BROKERLESS: Shape(brokered=False)}
_PYTHON_MICROS = 70
_NEAR = 0.85
_AHEAD = {"pgqueuer": 1.4, "dramatiq": 3.0, "celery": 10.0}


def run(bench: Bench) -> Outcome:
    """Run ours and the peers in turn."""
    outcome = Outcome()
    count = bench.size.drain
    systems: dict[str, Callable[[], Sample]] = {
        name: _ours(bench, count, shape) for name, shape in _OURS.items()
    }
    notes = dict(NOTES)
    if bench.size.peers:
        for peer in PEERS:
            notes[peer.name] = peer.note
            systems[peer.name] = _peer(bench, peer.name, tuned=True)
    series = in_turn(bench, systems, few=[peer.name for peer in PEERS], notes=notes)
    bench.known |= {f"drain {name}": each.rate for name, each in series.items()}
    outcome.tables.append(table(f"Drain of {count:,} no-op tasks, tuned", series))
    if bench.size.peers:
        defaults = {peer.name: _peer(bench, peer.name, tuned=False) for peer in PEERS}
        plain = in_turn(bench, defaults, rounds=1, notes=notes)
        outcome.tables.append(table("The peers at their defaults", plain))
    outcome.findings += [*_against(series), _brokerless(series), _python(series[RELAY])]
    outcome.notes.append(_extra(series))
    return outcome


def _ours(bench: Bench, count: int, shape: Shape) -> Callable[[], Sample]:
    return lambda: drain(bench, count, shape)


def _peer(bench: Bench, name: str, *, tuned: bool) -> Callable[[], Sample]:
    return lambda: running.drain(bench, name, tuned=tuned)


def _against(series: dict[str, Series]) -> list[Finding]:
    ours = series[RELAY].rate
    findings: list[Finding] = []
    for name, factor in _AHEAD.items():
        goal = f">= {factor:g} x {name} tuned"
        if name not in series:
            findings.append(Finding("drain through RabbitMQ", goal, f"{ours:,.0f}/s", None))
            continue
        theirs = series[name].rate
        measured = f"{ours / theirs:.2f} x ({ours:,.0f} against {theirs:,.0f}/s)"
        findings.append(
            Finding(
                "drain through RabbitMQ", goal, measured, ours >= factor * theirs, _costs(series)
            )
        )
    return findings


def _costs(series: dict[str, Series]) -> str:
    mine = series[RELAY]
    parts = [f"{group} {mine.micros(group):,.0f}" for group in ("python", "postgres", "beam")]
    return "CPU-µs per task: " + ", ".join(parts)


def _extra(series: dict[str, Series]) -> str:
    """What RabbitMQ costs beside the claims, runs and settlements that both ways share."""
    there, without = series[RELAY], series[BROKERLESS]
    more = {
        "the relay's Python": there.micros("python") - there.micros("consumers"),
        "the consumers' (messages, smaller groups)": there.micros("consumers")
        - without.micros("consumers"),
        "Postgres (marks, smaller groups)": there.micros("postgres") - without.micros("postgres"),
        "RabbitMQ": there.micros("beam") - without.micros("beam"),
    }
    parts = ", ".join(f"{name} {each:,.0f}" for name, each in more.items())
    return (
        f"Through RabbitMQ a task costs {sum(more.values()):,.0f} CPU-µs more than brokerless: "
        f"{parts}. Two cores have 2,000,000 a second; both ways use nearly all of them."
    )


def _brokerless(series: dict[str, Series]) -> Finding:
    share = series[BROKERLESS].rate / series[RELAY].rate
    measured = f"{100 * share:.0f} % of it"
    return Finding("drain brokerless", "within 15 % of it", measured, share >= _NEAR)


def _python(series: Series) -> Finding:
    used = series.micros("consumers")
    goal = f"<= {_PYTHON_MICROS} µs"
    relay = series.micros("python") - used
    measured = f"{used:.0f} µs, and {relay:.0f} µs of the relay"
    return Finding("consumer's Python per no-op task", goal, measured, used <= _PYTHON_MICROS)
