"""A hot queue's rate with scheduled, retrying and leased rows in front, and another's backlog."""

from sqlalchemy.engine import make_url

from benchmarks import counters, rows_in_front
from benchmarks.bench import Bench, Finding, Outcome
from benchmarks.measured import Sample
from benchmarks.pipeline import Shape, drain_through, open_pipeline
from benchmarks.turns import in_turn, table

_ALONE = "hot queue alone"
_CROWDED = "with rows in front"
_LEAST = 0.9
_FAR_SECONDS = 36_000.0
_FORGET = "DELETE FROM taskbell.task WHERE queue = 'bench' AND type = 'noop'"


def run(bench: Bench) -> Outcome:
    """Drain the hot queue of an empty database and of a crowded one in turn."""
    outcome = Outcome()
    scheduled = bench.size.backlog
    crowded = _crowd(bench)
    count = max(2_000, bench.size.drain // 3)
    systems = {
        _ALONE: lambda: _drain(bench, bench.servers.database(), count, 0),
        _CROWDED: lambda: _drain(bench, crowded, count, _waiting(bench)),
    }
    series = in_turn(bench, systems)
    bench.servers.postgres.drop_database(make_url(crowded).database or "")
    title = (
        f"{count:,} tasks of a hot queue; in front {scheduled:,} scheduled, {scheduled // 10:,} "
        f"retrying, {scheduled // 100:,} leased rows, and {scheduled:,} due on another queue"
    )
    outcome.tables.append(table(title, series))
    share = series[_CROWDED].rate / series[_ALONE].rate
    spreads = f"spread alone {series[_ALONE].spread}, crowded {series[_CROWDED].spread}"
    measured = f"{100 * share:.0f} % of it"
    goal = "hot queue's rate within 10 %"
    outcome.findings.append(
        Finding("rows in front, another queue's backlog", goal, measured, share >= _LEAST, spreads)
    )
    return outcome


def _crowd(bench: Bench) -> str:
    """A database that outlives a round."""
    url = bench.servers.database()
    bench.servers.made.clear()
    size = bench.size.backlog
    rows_in_front.waiting(url, "bench", size, due_in=_FAR_SECONDS)
    rows_in_front.retrying(url, "bench", size // 10, due_in=_FAR_SECONDS)
    rows_in_front.leased(url, "bench", size // 100)
    rows_in_front.waiting(url, "another", size)
    counters.tidy(url)
    return url


def _waiting(bench: Bench) -> int:
    size = bench.size.backlog
    return size + size // 10 + size // 100


def _drain(bench: Bench, url: str, count: int, resting: int) -> Sample:
    with open_pipeline(bench, Shape(), url) as pipeline:
        pipeline.resting = resting
        pipeline.start()
        sample = drain_through(pipeline, count)
    counters.rows(url, _FORGET)
    return sample
