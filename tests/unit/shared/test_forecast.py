"""When a task that waits may start."""

import pytest

from taskbell.shared.forecast import COUNTED, forecast


def _forecast(
    due_in: float,
    ahead: int = COUNTED,
    depth: int | None = 10_000,
    oldest_age: float | None = 50.0,
    drain_rate: float | None = 10.0,
    *,
    held: bool = False,
) -> tuple[int | None, float | None]:
    return forecast(
        due_in=due_in, ahead=ahead, depth=depth, oldest_age=oldest_age, drain_rate=drain_rate,
        held=held,
    )  # fmt: skip


@pytest.mark.parametrize("ahead", [0, 41, COUNTED - 1])
@pytest.mark.parametrize("measured", [(None, None), (0, 0.0), (10_000, 50.0)])
def test_who_was_counted_is_where_the_count_says(
    ahead: int, measured: tuple[int | None, float | None]
) -> None:
    assert _forecast(-20.0, ahead, *measured) == (ahead + 1, (ahead + 1) / 10)


@pytest.mark.parametrize(("due_in", "position"), [(0.0, 10_000), (-25.0, 5_000), (-49.4, 120)])
def test_of_those_beyond_the_count_who_waits_longer_is_further_in_front(
    due_in: float, position: int
) -> None:
    assert _forecast(due_in) == (position, position / 10)


@pytest.mark.parametrize("due_in", [-49.9, -50.0, -500.0])
def test_whose_age_says_that_he_would_have_been_counted_is_somewhere_behind(due_in: float) -> None:
    assert _forecast(due_in) == (5_050, 505.0)


@pytest.mark.parametrize("depth", [None, 0, 3, COUNTED])
def test_a_depth_that_is_older_than_the_count_does_not_bring_one_to_the_front(
    depth: int | None,
) -> None:
    assert _forecast(-50.0, depth=depth)[0] == COUNTED + 1


def test_who_is_not_due_has_no_place_and_starts_when_due() -> None:
    assert _forecast(3.5) == (None, 3.5)


def test_who_is_held_is_promised_nothing() -> None:
    assert _forecast(-1, held=True) == (None, None)
    assert _forecast(1, held=True) == (None, None)


@pytest.mark.parametrize("drain_rate", [None, 0.0, 1e-300])
def test_where_nothing_drains_there_is_a_place_and_no_time(drain_rate: float | None) -> None:
    assert _forecast(0, 99, drain_rate=drain_rate) == (100, None)


@pytest.mark.parametrize("oldest_age", [None, 0.0])
def test_without_an_oldest_age_one_is_somewhere_behind(oldest_age: float | None) -> None:
    assert _forecast(-1, oldest_age=oldest_age) == (5_050, 505.0)
