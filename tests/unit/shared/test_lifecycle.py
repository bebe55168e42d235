"""What a handler did decides what is written; the table is in the module's docstring."""

from uuid import uuid4

import pytest

from taskbell.shared.lifecycle import (
    Completed,
    Diagnosis,
    Failed,
    Outcome,
    Rejected,
    Released,
    Snoozed,
    Stopped,
    TaskStatus,
    Verdict,
    next_status,
    settle,
)

DIAGNOSIS = Diagnosis("ValueError", "0" * 16, "bad", "…")


@pytest.mark.parametrize(
    ("outcome", "verdict", "delay"),
    [
        (Completed("1"), "completed", 0),
        (Failed(DIAGNOSIS), "retry", 7),
        (Rejected(DIAGNOSIS), "fail", 0),
        (Snoozed(3), "snooze", 3),
        (Released(30), "release", 30),
        (Stopped(), "cancelled", 0),
    ],
)
def test_each_outcome_is_written_as_its_verdict(
    outcome: Outcome, verdict: Verdict, delay: float
) -> None:
    task_id = uuid4()

    settlement = settle(task_id, 2, outcome, retry_after=7)

    assert (settlement.task_id, settlement.attempt) == (task_id, 2)
    assert (settlement.verdict, settlement.delay) == (verdict, delay)


@pytest.mark.parametrize(
    ("verdict", "used", "cancelled", "status"),
    [
        ("completed", 1, True, TaskStatus.COMPLETED),
        ("retry", 2, False, TaskStatus.RETRYING),
        ("retry", 3, False, TaskStatus.FAILED),
        ("lost", 2, False, TaskStatus.RETRYING),
        ("lost", 3, False, TaskStatus.FAILED),
        ("fail", 1, False, TaskStatus.FAILED),
        ("fail", 1, True, TaskStatus.CANCELLED),
        ("release", 1, False, TaskStatus.PENDING),
        ("release", 2, False, TaskStatus.RETRYING),
        ("snooze", 3, False, TaskStatus.RETRYING),
        ("cancelled", 1, False, TaskStatus.CANCELLED),
        ("retry", 1, True, TaskStatus.CANCELLED),
    ],
)
def test_each_verdict_leads_to_its_status(
    verdict: Verdict,
    used: int,
    cancelled: bool,  # noqa: FBT001 - a column of the table
    status: TaskStatus,
) -> None:
    found = next_status(verdict, used=used, max_attempts=3, cancel_requested=cancelled)

    assert found is status
