"""For every state of a task one sentence says where it is and what it waits for."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from taskbell.shared.whereabouts import Whereabouts

ONE, OTHER = UUID(int=1), UUID(int=2)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOWHERE = Whereabouts(
    task_id=ONE, type="t", queue="q", owner_id="", status="PENDING", priority=5,
    partition_key=None, correlation_id=None, created_at=NOON, scheduled_at=NOON, started_at=None,
    finished_at=None, attempt=0, used=0, max_attempts=5, error_message=None, due_at=None,
    due_in=None, parked=False, announced_for=None, queue_paused=False, paused_until=None,
    worker_id=None, lease_left=None, cancel_requested=False, progress=None, error_class=None,
    fingerprint=None, held_by=None, partition_head=None,
)  # fmt: skip
WAITS = {"due_in": -3.0}
RUNS = {"status": "IN_PROGRESS", "lease_left": 17.0, "worker_id": "w"}


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        ({}, "PENDING: neither waits nor runs, which must not be: run taskbell audit"),
        (WAITS, "PENDING: is due since 3.0 s and waits to be announced or polled"),
        (
            WAITS | {"announced_for": 2.0},
            "PENDING: is due, was announced 2.0 s ago and waits for a free worker",
        ),
        ({"due_in": 90.0, "status": "RETRYING"}, "RETRYING: waits until it is due, in 90 s"),
        (
            WAITS | {"queue_paused": True},
            "PENDING: waits for its queue, which is paused until it is resumed",
        ),
        (
            WAITS | {"queue_paused": True, "paused_until": NOON},
            "PENDING: waits for its queue, which is paused until 2026-01-01 12:00:00+00:00",
        ),
        (
            WAITS | {"parked": True, "partition_head": OTHER, "queue_paused": True},
            f"PENDING: waits behind task {OTHER} of the same partition",
        ),
        (
            WAITS | {"parked": True, "partition_head": ONE},
            "PENDING: waits to become the head of its partition, within a second or two",
        ),
        (
            WAITS | {"parked": True, "held_by": OTHER},
            f"PENDING: waits until task {OTHER}, which holds the partition, is dealt with",
        ),
        (RUNS, "IN_PROGRESS: runs at w; the lease ends in 17 s unless extended"),
        (
            RUNS | {"cancel_requested": True},
            (
                "IN_PROGRESS: runs at w, which will be told to cancel it; "
                "the lease ends in 17 s unless extended"
            ),
        ),
        (
            RUNS | {"lease_left": -1.0},
            "IN_PROGRESS: its lease ran out 1.0 s ago and is about to be taken back",
        ),
        (
            {"status": "COMPLETED", "finished_at": NOON},
            "COMPLETED: ended at 2026-01-01 12:00:00+00:00",
        ),
        (
            {"status": "FAILED", "finished_at": NOON, "used": 1},
            "FAILED: ended at 2026-01-01 12:00:00+00:00 after 1 try; redrive or discard it",
        ),
        (
            {"status": "FAILED", "finished_at": NOON, "used": 5, "held_by": ONE},
            (
                "FAILED: ended at 2026-01-01 12:00:00+00:00 after 5 tries; it holds its partition; "
                "redrive or discard it"
            ),
        ),
        (
            {"status": "CANCELLED", "finished_at": NOON, "held_by": ONE},
            (
                "CANCELLED: ended at 2026-01-01 12:00:00+00:00; "
                "it holds its partition until that is released"
            ),
        ),
    ],
)
def test_one_sentence_says_where_a_task_is(known: dict[str, Any], sentence: str) -> None:
    assert str(replace(NOWHERE, **known)) == sentence
