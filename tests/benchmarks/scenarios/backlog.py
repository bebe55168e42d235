"""The cost of claim and announce while a backlog grows from a thousand to a million due tasks."""

from benchmarks import counters, rows_in_front
from benchmarks.bench import Bench, Curve, Finding, Outcome, Table
from benchmarks.counters import Kind
from benchmarks.pipeline import Shape, open_pipeline

_SMALLEST = 1_000
_WATCHED = 5_000
_MOST = 1.5
_ANNOUNCED = "SELECT 1 FROM taskbell.outbox WHERE announced_at IS NOT NULL LIMIT 1"
_KINDS = ("announce", "claim")


def run(bench: Bench) -> Outcome:
    """Top the backlog up tenfold, drain some of it and read what each statement cost."""
    outcome = Outcome()
    url = bench.servers.database()
    found: dict[int, dict[str, Kind]] = {}
    born = ran = 0
    size = _SMALLEST
    while size <= bench.size.backlog:
        missing = size - (born - ran)
        rows_in_front.waiting(url, "bench", missing, first=born)
        born += missing
        counters.tidy(url)
        counters.forget_kinds(url)
        ran += _drain_some(bench, url, min(_WATCHED, size))
        found[size] = counters.kinds(url)
        bench.say(f"  backlog {size:,}: {_costs(found[size])}")
        size *= 10
    bench.servers.sweep()
    _tell(outcome, found)
    return outcome


def _drain_some(bench: Bench, url: str, count: int) -> int:
    """How many ran until at least this many did."""
    with open_pipeline(bench, Shape(consumers=1), url) as pipeline:
        pipeline.start_relay()
        pipeline.crew.wait("some are announced", lambda: counters.rows(url, _ANNOUNCED), 60.0)
        pipeline.start()
        pipeline.crew.wait(f"{count} ran", lambda: pipeline.seen().count >= count, 300.0)
        pipeline.crew.stop("relay", *pipeline.consumers)
        return pipeline.seen().count


def _costs(kinds: dict[str, Kind]) -> str:
    return ", ".join(
        f"{name} {_micros(kinds[name]):.0f} µs, {_buffers(kinds[name]):.1f} buffers a task"
        for name in _KINDS
    )


def _micros(kind: Kind) -> float:
    return 1e6 * kind.seconds / max(1, kind.rows)


def _buffers(kind: Kind) -> float:
    return kind.buffers / max(1, kind.rows)


def _tell(outcome: Outcome, found: dict[int, dict[str, Kind]]) -> None:
    title = "Cost per task by size of the backlog"
    columns = ("backlog", "announce µs", "announce buffers", "claim µs", "claim buffers")
    table = tuple(
        (
            f"{size:,}",
            *(text for name in _KINDS for text in (
                f"{_micros(kinds[name]):.0f}", f"{_buffers(kinds[name]):.1f}")),
        )
        for size, kinds in found.items()
    )  # fmt: skip
    outcome.tables.append(Table(title, columns, table))
    lines = {
        f"{name} buffers": [(float(size), _buffers(kinds[name])) for size, kinds in found.items()]
        for name in _KINDS
    }
    outcome.curves.append(Curve(title, "due tasks (log)", "buffers per task", lines))
    sizes = sorted(found)
    least, most = found[sizes[0]], found[sizes[-1]]
    for name in _KINDS:
        by_time = _micros(most[name]) / _micros(least[name])
        by_buffers = _buffers(most[name]) / _buffers(least[name])
        outcome.findings.append(
            Finding(
                f"{name}, backlog {sizes[0]:,} → {sizes[-1]:,}", f"<= {_MOST} x per task",
                f"{by_time:.2f} x time, {by_buffers:.2f} x buffers",
                by_time <= _MOST and by_buffers <= _MOST,
                "time is the server's own for the statement; buffers do not depend on the machine",
            )
        )  # fmt: skip
