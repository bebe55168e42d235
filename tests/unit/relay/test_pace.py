"""Looking in vain never burns a core, and a full batch is never waited for."""

import pytest

from taskbell.relay.pace import Pace, Pass


def test_a_full_batch_is_followed_at_once() -> None:
    assert Pace().rest_after(Pass(1000, full=True), started=0.0, ended=9.0) == 0.0


def test_after_some_work_the_relay_gathers_for_as_long_again() -> None:
    assert Pace().rest_after(Pass(3), started=0.0, ended=0.02) == pytest.approx(0.02)


def test_the_first_vain_look_after_a_silence_costs_no_rest() -> None:
    pace = Pace()

    assert pace.rest_after(Pass(), started=100.0, ended=100.005) == 0.0


@pytest.mark.parametrize("took", [0.001, 0.004, 0.02])
def test_vain_looks_take_a_tenth_of_the_time(took: float) -> None:
    pace = Pace()
    now = spent = 0.0

    while now < 60.0:
        rest = pace.rest_after(Pass(), started=now, ended=now + took)
        spent += took
        now += took + rest

    assert spent / now == pytest.approx(0.1, rel=0.15)


def test_no_rest_is_longer_than_half_a_second() -> None:
    pace = Pace()

    assert pace.rest_after(Pass(), started=0.0, ended=30.0) == 0.5
    assert pace.rest_after(Pass(3), started=30.0, ended=60.0) == 0.5


def test_one_slow_pass_is_paid_for_by_one_rest() -> None:
    pace = Pace()
    pace.rest_after(Pass(), started=0.0, ended=30.0)

    assert pace.rest_after(Pass(), started=30.5, ended=30.501) < 0.1
