"""The page of metrics as scrapers read it."""

from typing import NamedTuple

from taskbell.producer.api.front import RequestServed
from taskbell.producer.api.metrics import Metrics


class Measured(NamedTuple):
    queue: str
    depth: int | None = 1
    oldest_age: float | None = 2.0
    drain_rate: float | None = 3.0
    max_depth: int | None = None


def served(
    *, route: str = "/tasks", method: str = "GET", status: int = 200, seconds: float = 0.02,
    problem: str = "",
) -> RequestServed:  # fmt: skip
    return RequestServed(route, method, status, seconds, "tbk_p", "an id", problem)


def test_a_histogram_counts_each_bound_with_all_below_it() -> None:
    metrics = Metrics()
    for seconds in (0.0005, 0.02, 0.025, 99.0):
        metrics.observe(served(seconds=seconds))

    lines = metrics.text(0, []).splitlines()

    counts = {
        bound: int(line.split()[-1])
        for line in lines
        if "seconds_bucket" in line
        for bound in [line.split('le="')[1].split('"')[0]]
    }
    assert (counts["0.001"], counts["0.01"], counts["0.025"], counts["10.0"]) == (1, 1, 3, 3)
    assert counts["+Inf"] == 4
    assert 'taskbell_api_request_seconds_count{route="/tasks"} 4' in lines


def test_a_method_nobody_knows_and_a_path_nobody_has_share_a_label() -> None:
    metrics = Metrics()
    for method in ("BREW", "STEEP"):
        metrics.observe(served(route="", method=method, status=404))

    assert (
        'taskbell_api_requests_total{route="none",method="(other)",status="404"} 2'
        in metrics.text(0, [])
    )


def test_what_was_not_measured_is_not_told_and_names_are_escaped() -> None:
    page = Metrics().text(0, [Measured('a"\\b', None, max_depth=9)])

    assert "taskbell_queue_depth{" not in page
    assert 'taskbell_queue_max_depth{queue="a\\"\\\\b"} 9' in page


def test_every_series_has_one_head_and_the_page_ends_with_a_line() -> None:
    metrics = Metrics()
    metrics.observe(served(problem="not-found"))
    with metrics.streaming():
        page = metrics.text(3, None)

    kinds = [line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")]
    assert len(kinds) == len(set(kinds))
    assert "taskbell_api_in_flight 3\n" in page
    assert "taskbell_api_streams 1\n" in page
    assert "taskbell_database_up 0\n" in page
    assert page.endswith("\n")
    assert metrics.streams == 0
