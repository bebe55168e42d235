"""Attempts that ended: what is to be written of them, and what the answers mean. Pure."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from taskbell.consumer.leases import Lease
from taskbell.shared.lifecycle import Settlement


class Ended(NamedTuple):
    """An attempt that ended, and what is to be written."""

    lease: Lease
    settlement: Settlement
    noticed_by: str = "settlement"
    """What noticed that the lease is lost; if something else did, nothing is written."""


class Answered(NamedTuple):
    """What became of an attempt that ended."""

    ended: Ended
    status: str | None
    """What its task became; None: the lease was lost."""
    current: int | None
    """Then, if it is known, the attempt the task is at."""


def status_of(settlement: Settlement, answer: str) -> str | None:
    """Read an answer: what the task became, None if the lease was lost."""
    if answer == "lost":
        return None
    status = answer.removeprefix("already ")
    if status != answer and settlement.verdict == "completed" and status != "COMPLETED":
        return None  # the reaper ended this attempt, not we
    return status


def fence_of(ended: Ended) -> tuple[UUID, int]:
    """Name the task and the attempt."""
    return ended.settlement[:2]


def is_plain(settlement: Settlement) -> bool:
    """Whether it is on the hot path: completed, with no result."""
    return (
        settlement.verdict == "completed"
        and settlement.result is None
        and settlement.result_sealed is None
        and settlement.result_location is None
    )


def columns_of(group: Sequence[Ended]) -> dict[str, object]:
    """Write a group as the parameters of ``SETTLE``."""
    settlements = [each.settlement for each in group]
    diagnoses = [each.diagnosis for each in settlements]
    return {
        "task_ids": [each.task_id for each in settlements],
        "attempts": [each.attempt for each in settlements],
        "outcomes": [each.verdict for each in settlements],
        "delays": [float(each.delay) for each in settlements],
        "results": [each.result for each in settlements],
        "error_classes": [each.error_class if each else None for each in diagnoses],
        "fingerprints": [each.fingerprint if each else None for each in diagnoses],
        "errors": [each.error if each else None for each in diagnoses],
        "tracebacks": [each.traceback if each else None for each in diagnoses],
        "results_sealed": [each.result_sealed for each in settlements],
        "result_locations": [each.result_location for each in settlements],
    }
