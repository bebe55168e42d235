"""A queue that RabbitMQ refuses waits by itself and comes back."""

import pytest

from taskbell.relay.lane import Fate, Lane

_PROBLEMS = [Fate.REFUSED, Fate.RETURNED, Fate.UNCONFIRMED, Fate.UNSENDABLE]


def test_a_new_lane_is_open_and_takes_full_batches() -> None:
    lane = Lane("mail")

    assert lane.is_open(now=0.0)
    assert lane.batch(1000) == 1000


@pytest.mark.parametrize("problem", _PROBLEMS)
def test_after_a_problem_the_lane_is_closed_and_then_probed_by_one_announcement(
    problem: Fate,
) -> None:
    lane = Lane("mail")

    lane.judge({problem}, now=10.0, roll=0.0)

    assert not lane.is_open(now=10.0)
    assert lane.is_open(now=100.0)
    assert lane.batch(1000) == 100
    assert lane.batch(10) == 10


def test_each_refusal_closes_the_lane_for_longer_up_to_five_seconds() -> None:
    lane = Lane("mail")
    waits: list[float] = []

    for _ in range(1000):
        lane.judge({Fate.REFUSED}, now=0.0, roll=1.0)
        waits.append(lane.closed_until)

    assert waits[0] == pytest.approx(0.1)
    assert waits == sorted(waits)
    assert waits[-1] == pytest.approx(5.0)


def test_relays_that_fail_together_do_not_come_back_together() -> None:
    one, other = Lane("mail"), Lane("mail")

    one.judge({Fate.REFUSED}, now=0.0, roll=0.1)
    other.judge({Fate.REFUSED}, now=0.0, roll=0.9)

    assert one.closed_until < other.closed_until


def test_a_confirm_forgives_everything() -> None:
    lane = Lane("mail", failures=5)

    lane.judge({Fate.CONFIRMED}, now=3.0, roll=0.5)

    assert lane.is_open(now=3.0)
    assert lane.batch(1000) == 1000


def test_a_queue_that_drains_slowly_is_tried_often() -> None:
    lane = Lane("mail", failures=5)

    lane.judge({Fate.CONFIRMED, Fate.REFUSED}, now=0.0, roll=1.0)

    assert lane.closed_until == pytest.approx(0.1)
    assert lane.batch(1000) == 100


def test_a_broken_connection_is_not_the_queues_fault() -> None:
    lane = Lane("mail")

    lane.judge({Fate.CUT}, now=0.0, roll=0.5)

    assert lane == Lane("mail")


def test_a_name_that_cannot_be_sent_is_set_apart_for_long() -> None:
    lane = Lane("!")

    lane.judge({Fate.UNSENDABLE}, now=0.0, roll=0.0)

    assert lane.closed_until >= 30.0
