"""Attempts that ended: what is to be written of them, and what the answers mean. Pure."""

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
