"""When a task that waits may start."""

import pytest

from taskbell.shared.forecast import forecast


def _forecast(
    due_in: float,
    depth: int | None = 100,
    oldest_age: float | None = 50.0,
    drain_rate: float | None = 10.0,
    *,
    held: bool = False,
) -> tuple[int | None, float | None]:
    return forecast(
        due_in=due_in, depth=depth, oldest_age=oldest_age, drain_rate=drain_rate, held=held
    )


@pytest.mark.parametrize(
    ("due_in", "position"), [(0.0, 100), (-25.0, 50), (-49.9, 1), (-50.0, 1), (-500.0, 1)]
)
def test_who_waits_longer_is_further_in_front(due_in: float, position: int) -> None:
    assert _forecast(due_in) == (position, position / 10)


def test_who_is_not_due_has_no_place_and_starts_when_due() -> None:
    assert _forecast(3.5) == (None, 3.5)


def test_who_is_held_is_promised_nothing() -> None:
    assert _forecast(-1, held=True) == (None, None)
    assert _forecast(1, held=True) == (None, None)


@pytest.mark.parametrize("drain_rate", [None, 0.0, 1e-300])
def test_where_nothing_drains_there_is_a_place_and_no_time(drain_rate: float | None) -> None:
    assert _forecast(0, drain_rate=drain_rate) == (100, None)


def test_a_queue_that_was_never_measured_tells_nothing() -> None:
    assert _forecast(0, depth=None, oldest_age=None, drain_rate=None) == (None, None)


@pytest.mark.parametrize("oldest_age", [None, 0.0])
def test_without_an_oldest_age_one_is_the_last(oldest_age: float | None) -> None:
    assert _forecast(-1, oldest_age=oldest_age) == (100, 10.0)


def test_a_queue_measured_empty_makes_one_the_first() -> None:
    assert _forecast(0, depth=0, oldest_age=0.0) == (1, 0.1)
