"""Systems run in turn, A/B/A/B, so that what disturbs the machine disturbs them alike."""

from collections.abc import Callable, Collection, Mapping

from benchmarks.bench import Bench, Table
from benchmarks.measured import Sample, Series
from benchmarks.processes import GROUPS

COLUMNS = (
    "system", "tasks/s", "spread", "python µs", "postgres µs", "beam µs", "statements", "commits",
    "AMQP messages", "WAL B", "HOT", "dead tuples", "runs", "foreign CPU", "does per task",
)  # fmt: skip


def in_turn(
    bench: Bench,
    systems: Mapping[str, Callable[[], Sample]],
    *,
    rounds: int | None = None,
    few: Collection[str] = (),
    notes: Mapping[str, str] | None = None,
) -> dict[str, Series]:
    """Run every system once a round; what was made for a run is dropped after it.

    The ``few`` sit out the last round: the peers, most of which take their time.
    """
    samples: dict[str, list[Sample]] = {name: [] for name in systems}
    last = (rounds or bench.size.rounds) - 1
    for turn in range(last + 1):
        for name, run in systems.items():
            if name in few and turn == last > 0:
                continue
            samples[name].append(run())
            bench.servers.sweep()
            bench.say(f"  {turn + 1}. {name}: {samples[name][-1].rate:,.0f}/s")
    said = notes or {}
    return {name: Series(name, tuple(got), said.get(name, "")) for name, got in samples.items()}


def table(title: str, series: Mapping[str, Series]) -> Table:
    """The work done per task beside each rate."""
    return Table(title, COLUMNS, tuple(_row(each) for each in series.values()), plot="tasks/s")


def _row(series: Series) -> tuple[str, ...]:
    micros = {group: f"{series.micros(group):,.0f}" for group in GROUPS}
    return (
        series.system, f"{series.rate:,.0f}", series.spread,
        micros["python"], micros["postgres"], micros["beam"],
        _number(series.per_task("statements"), 4), _number(series.per_task("commits"), 4),
        _number(series.messages, 4), _number(series.per_task("wal"), 0),
        "-" if series.hot is None else f"{100 * series.hot:.0f} %",
        _number(series.dead, 0), str(len(series.samples)), f"{100 * series.foreign:.0f} %",
        series.note,
    )  # fmt: skip


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"
