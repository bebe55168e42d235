"""What counts of what a handler did, whether it was told to end or not."""

import pytest

from taskbell.consumer.attempt import Interruption, judged
from taskbell.consumer.errors import RetryLater
from taskbell.shared.lifecycle import (
    Completed,
    Diagnosis,
    Failed,
    Outcome,
    Rejected,
    Released,
    Snoozed,
    Stopped,
)

FAILED = Failed(Diagnosis("ValueError", "f", "bad", ""))
REJECTED = Rejected(FAILED.diagnosis)
OUTCOMES: tuple[Outcome | None, ...] = (None, Completed("1"), FAILED, REJECTED, Snoozed(1))


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_undisturbed_the_outcome_counts(outcome: Outcome | None) -> None:
    assert judged(outcome, None) == outcome


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_once_the_lease_is_lost_nothing_counts(outcome: Outcome | None) -> None:
    assert judged(outcome, Interruption.LOST) is None


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_lease_about_to_run_out_is_given_back_whatever_the_handler_said(
    outcome: Outcome | None,
) -> None:
    assert judged(outcome, Interruption.EXPIRING) == Released()


@pytest.mark.parametrize(
    ("interruption", "ending"),
    [(Interruption.CANCELLED, Stopped()), (Interruption.RELEASED, Released())],
)
def test_a_failure_after_an_interruption_is_its_consequence_and_the_rest_counts(
    interruption: Interruption, ending: Outcome
) -> None:
    assert [judged(each, interruption) for each in OUTCOMES] == [
        ending, Completed("1"), ending, REJECTED, Snoozed(1)
    ]  # fmt: skip


@pytest.mark.parametrize("after", [-1, float("nan"), float("inf"), 1e300])
def test_later_is_a_time_that_comes(after: float) -> None:
    with pytest.raises(ValueError, match="is not within"):
        RetryLater(after)
