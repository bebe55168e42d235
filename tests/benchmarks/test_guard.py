"""The regression guard: the smoke version of the benchmarks, judged by counts and ratios."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.bench import SMOKE, Bench, Size
from benchmarks.counters import Counts
from benchmarks.guard import Measured, broken
from benchmarks.measured import Sample
from benchmarks.pipeline import Shape, drain
from benchmarks.scenarios import effect, enqueue, life
from benchmarks.servers import find_programs, open_servers
from services import ServiceError

SIZE: Size = replace(SMOKE, effects=300, floor_seconds=1.0)
COUNTS = Counts(commits=60, statements=70, wal=1_000_000, updates=2_000, hot=1_900, dead=100)
GOOD = Measured(
    drain=Sample(1_000, 1.0, {"python": 0.1, "postgres": 0.05}, COUNTS, 10),
    brokerless=Sample(1_000, 1.0, {"python": 0.1, "postgres": 0.05}, COUNTS),
    one=Sample(100, 1.0, counts=Counts(101, 101, 80_000, 0, 0, 0)),
    admitted=Sample(100, 1.0, counts=Counts(101, 101, 80_000, 0, 0, 0)),
    many=Sample(10_000, 1.0, counts=Counts(2, 6, 8_000_000, 0, 0, 0)),
    effect=Sample(300, 1.0, counts=Counts(600, 1_100, 400_000, 900, 900, 0)),
    floor=Sample(1_000, 0.1),
)


@pytest.mark.timeout(600)
def test_no_task_costs_more_statements_commits_or_wal_than_it_should(tmp_path: Path) -> None:
    chosen = os.environ.get("TASKBELL_TEST_POSTGRES_BIN")
    programs = find_programs(Path(chosen) if chosen else None)
    if programs is None:
        pytest.fail(
            "no Postgres >= 15 with pgbench and pg_stat_statements; apt-get install postgresql",
            pytrace=False,
        )
    try:
        with open_servers(programs) as servers:
            bench = Bench(servers, SIZE, tmp_path)
            measured = Measured(
                drain=drain(bench, 3_000, Shape()),
                brokerless=drain(bench, 3_000, Shape(brokered=False)),
                one=enqueue.alone(bench, "one_psycopg", [200]),
                admitted=enqueue.admitted(bench, [200]),
                many=enqueue.alone(bench, "many", [10_000]),
                effect=effect.psycopg(bench),
                floor=life.floor(bench),
            )
    except ServiceError as error:
        pytest.fail(str(error), pytrace=False)

    assert broken(measured) == []


def test_figures_as_they_should_be_break_no_bound() -> None:
    assert broken(GOOD) == []


@pytest.mark.parametrize(
    ("worse", "told"),
    [
        (replace(COUNTS, statements=3_000), "statements a task"),
        (replace(COUNTS, commits=1_000), "commits a task"),
        (replace(COUNTS, wal=5_000_000), "WAL bytes a task"),
        (replace(COUNTS, hot=500), "share of HOT updates"),
    ],
    ids=["a statement a task", "a commit a task", "five times the WAL", "no HOT updates"],
)
def test_what_got_worse_is_named(worse: Counts, told: str) -> None:
    measured = replace(GOOD, drain=replace(GOOD.drain, counts=worse))

    (complaint,) = broken(measured)

    assert complaint.startswith(f"drain: {told}")


def test_a_figure_that_was_not_counted_is_no_figure_that_is_kept() -> None:
    measured = replace(GOOD, one=replace(GOOD.one, counts=None))

    assert len(broken(measured)) == 3
