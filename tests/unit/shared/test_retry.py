"""Retry policies answer a delay within their bounds, whatever they are asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskbell.shared.retry import FLOOR_SECONDS, Delays, Exponential, Fixed, Retry

ROLL = st.floats(0, 1)
TRIES = st.integers(0, 10**6)
SECONDS = st.floats(0, 1e9)


@given(base=SECONDS, jitter=SECONDS, cap=st.floats(FLOOR_SECONDS, 1e9), used=TRIES, roll=ROLL)
def test_exponential_stays_between_the_floor_and_its_cap(
    base: float, jitter: float, cap: float, used: int, roll: float
) -> None:
    assert FLOOR_SECONDS <= Exponential(base, jitter, cap).after(used, roll) <= cap


@given(numbers=st.tuples(*[st.floats() | st.integers()] * 3), used=st.integers(), roll=ROLL)
def test_no_numbers_make_exponential_raise(
    numbers: tuple[float, float, float], used: int, roll: float
) -> None:
    assert Exponential(*numbers).after(used, roll) >= 0


@given(seconds=st.lists(SECONDS), used=TRIES, roll=ROLL)
def test_a_table_answers_one_of_its_delays(seconds: list[float], used: int, roll: float) -> None:
    answer = Delays(*seconds).after(used, roll)

    bounded = {min(max(each, FLOOR_SECONDS) if each else 0, 316_224_000) for each in seconds}
    assert answer in (bounded or {0})


def test_exponential_doubles_from_the_first_try_on() -> None:
    policy = Exponential(base=10, jitter=4, cap=60)

    assert [policy.after(used, 0) for used in range(1, 6)] == [10, 20, 40, 60, 60]
    assert [policy.after(used, 1) for used in range(1, 4)] == [14, 24, 44]


def test_a_table_is_followed_and_its_last_delay_repeated() -> None:
    policy = Delays(0, 30, 120)

    assert [policy.after(used, 0.5) for used in range(1, 6)] == [0, 30, 120, 120, 120]


def test_only_an_explicit_zero_is_at_once() -> None:
    assert Fixed(0).after(1, 0) == 0
    assert Fixed(0.001).after(1, 0) == FLOOR_SECONDS
    assert Exponential(base=0, jitter=0).after(1, 0) == FLOOR_SECONDS


@pytest.mark.parametrize(
    "policy",
    [Fixed(-1), Fixed(float("nan")), Fixed(1e300), Delays(), Delays(1, -1), Exponential(cap=0),
     Exponential(base=-1), Exponential(jitter=float("nan"))],
)  # fmt: skip
def test_numbers_that_make_no_delay_are_a_problem(policy: Retry) -> None:
    assert policy.problem()
