"""How long those who are refused are told to wait."""

import math

import pytest

from taskbell.producer import QueueFull, RateLimited
from taskbell.shared.admission import (
    Portion,
    Verdict,
    refusal,
    seconds_until_room,
    seconds_until_tokens,
)


@pytest.mark.parametrize(
    ("depth", "max_depth", "drain_rate", "roll", "wait"),
    [
        (100, 100, 0.1, 0.0, 10.0),
        (149, 100, 5.0, 0.0, 10.0),
        (149, 100, 5.0, 1.0, 12.0),
        (149, 100, 5.0, 0.5, 11.0),
        (100, 100, 50.0, 0.0, 1.0),
        (10**6, 100, 1.0, 1.0, 300.0),
        (0, 0, 2.0, 0.0, 1.0),
        (99, 100, 1.0, 0.0, 1.0),
        (1, 10**9, 1.0, 1.0, 1.0),
        (100, 100, None, 0.0, 30.0),
        (100, 100, 0.0, 0.0, 30.0),
        (100, 100, 0.0, 1.0, 36.0),
        (100, 100, -1.0, 0.0, 30.0),
        (100, 100, math.nan, 0.0, 30.0),
        (100, 100, 1e308, 0.0, 1.0),
        (100, 100, 5e-324, 1.0, 300.0),
        (2**63 - 1, 0, 1e-300, 1.0, 300.0),
    ],
)
def test_a_full_queue_is_waited_for_as_long_as_it_drains(
    depth: int, max_depth: int, drain_rate: float | None, roll: float, wait: float
) -> None:
    assert seconds_until_room(depth, max_depth, drain_rate, roll) == pytest.approx(wait)


@pytest.mark.parametrize(
    ("need", "tokens", "rate", "roll", "wait"),
    [
        (1.0, 0.5, 0.05, 0.0, 10.0),
        (1.0, 0.5, 0.05, 1.0, 12.0),
        (1.0, 0.5, 100.0, 0.0, 1.0),
        (1.0, 5.0, 1.0, 0.0, 1.0),
        (100.0, 0.0, 0.001, 0.0, 3600.0),
        (1.0, 0.0, 0.0, 0.0, 3600.0),
        (1e308, -1e308, 5e-324, 1.0, 3600.0),
        (1.0, 0.0, 1e308, 1.0, 1.0),
    ],
)
def test_an_empty_bucket_is_waited_for_as_long_as_it_fills(
    need: float, tokens: float, rate: float, roll: float, wait: float
) -> None:
    assert seconds_until_tokens(need, tokens, rate, roll) == pytest.approx(wait)


def test_a_verdict_names_what_is_full_or_who_is_over_its_rate() -> None:
    told = '{"full_queue": "q\\"", "depth": 19, "max_depth": 10, "drain_rate": 1}'
    full = refusal(Verdict.read(told), 0.0)
    limited = refusal(Verdict(limited_owner="", tokens=0.0, need=7.0, rate=1.0), 0.0)

    assert isinstance(full, QueueFull)
    assert (full.queue, full.retry_after) == ('q"', 10.0)
    assert isinstance(limited, RateLimited)
    assert (limited.scope, limited.name, limited.retry_after) == ("owner", "", 7.0)


def test_a_portion_is_spent_within_a_second_of_its_taking() -> None:
    portion = Portion(tokens=2.0, rate=1.0, taken_at=10.0)

    assert portion.covers(2, 10.0)
    assert portion.covers(2, 10.9)
    assert not portion.covers(3, 10.0)
    assert not portion.covers(2, 11.0)
    assert portion.lacking(3, 10.0) is None


def test_a_bucket_that_was_short_is_believed_to_be_while_it_cannot_have_filled() -> None:
    portion = Portion(tokens=0.5, rate=2.0, taken_at=10.0, refused=True)

    assert portion.lacking(1, 10.0) == 0.5
    assert portion.lacking(1, 10.25) is None
    assert portion.lacking(3, 10.25) == 1.0
    assert portion.lacking(3, 11.0) is None
    assert not portion.covers(0, 10.0)
