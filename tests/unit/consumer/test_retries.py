"""Each exception finds the policy of its most specific class."""

import pytest
import tenacity
from hypothesis import given
from hypothesis import strategies as st

from taskbell.consumer import AttemptTimeout, Consumer, Context, Exponential, Fixed, InvalidHandler
from taskbell.consumer.diagnosis import failed
from taskbell.consumer.retries import DEFAULT, Policy, Retries
from taskbell.shared.lifecycle import Failed, Rejected
from taskbell.shared.limits import DELAY_SECONDS
from taskbell.shared.retry import FLOOR_SECONDS


class Busy(TimeoutError):
    """More specific than its parent."""


class BrokenWait(tenacity.wait_fixed):
    """A strategy that cannot answer."""

    def __init__(self) -> None:
        super().__init__(1)

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        raise ZeroDivisionError(retry_state)


def judged(retries: Retries, error: BaseException, used: int = 1) -> tuple[type, float]:
    outcome, after = retries.judge(failed(error), used)
    return type(outcome), after


def test_the_most_specific_class_wins() -> None:
    retries = Retries.of({Exception: Fixed(1), TimeoutError: Fixed(2), Busy: Fixed(3)})

    assert judged(retries, Busy()) == (Failed, 3)
    assert judged(retries, TimeoutError()) == (Failed, 2)
    assert judged(retries, AttemptTimeout("")) == (Failed, 2)
    assert judged(retries, KeyError()) == (Failed, 1)


def test_what_has_no_policy_gets_the_default() -> None:
    _, after = judged(Retries.of({TimeoutError: Fixed(2)}), ValueError())

    assert 10 <= after <= 20
    assert isinstance(DEFAULT, Exponential)


def test_a_permanent_failure_is_rejected_unless_a_subclass_has_a_policy() -> None:
    retries = Retries.of({Busy: Fixed(3)}, permanent=(OSError,))

    assert judged(retries, PermissionError())[0] is Rejected
    assert judged(retries, TimeoutError())[0] is Rejected
    assert judged(retries, Busy()) == (Failed, 3)
    assert judged(retries, ValueError())[0] is Failed


@given(used=st.integers(0, 10**6))
@pytest.mark.parametrize(
    "strategy",
    [
        tenacity.wait_fixed(0),
        tenacity.wait_exponential(multiplier=10**9),
        tenacity.wait_random_exponential(multiplier=10**9),
        tenacity.wait_exponential_jitter(multiplier=10**9, max=1e300),
        tenacity.wait_chain(tenacity.wait_fixed(1), tenacity.wait_random(2, 3)),
        tenacity.wait_fixed(1) + tenacity.wait_incrementing(0, 1e9),
        BrokenWait(),
    ],
    ids=lambda strategy: type(strategy).__name__,
)
def test_any_wait_strategy_of_tenacitys_answers_within_bounds(strategy: Policy, used: int) -> None:
    assert FLOOR_SECONDS <= judged(Retries.of(strategy), ValueError(), used)[1] <= DELAY_SECONDS


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), 1e300])
def test_a_timeout_that_never_comes_is_refused(timeout: float) -> None:
    with pytest.raises(InvalidHandler, match="a timeout has"):
        Consumer().handler("t", timeout=timeout)(in_a_module)


def test_a_handler_that_no_other_process_can_import_is_refused() -> None:
    def local(_context: Context, _payload: object) -> None:
        return

    with pytest.raises(InvalidHandler, match="must be able to import it"):
        Consumer().handler("t", isolation="process")(local)
    Consumer().handler("t", isolation="process")(in_a_module)


def in_a_module(_context: Context, _payload: object) -> None:
    return
