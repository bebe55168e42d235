"""Rows as JSON bytes, written by hand: JSON that Postgres holds is spliced in, never parsed."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from taskbell.producer.api.line import key_of
from taskbell.shared.forecast import forecast
from taskbell.shared.listing import Listed

_text = json.encoder.encode_basestring_ascii


def submitted(task_id: UUID, status: str) -> bytes:
    """Write the answer to a submission."""
    return f'{{"task_id":"{task_id}","status":"{status}"}}'.encode()


def submitted_many(asked: Iterable[tuple[UUID, str, bool]]) -> bytes:
    """Write the answer to a batch: id, status and whether it was created, of each."""
    tasks = ",".join(
        f'{{"task_id":"{task_id}","status":"{status}","created":{"true" if created else "false"}}}'
        for task_id, status, created in asked
    )
    return f'{{"tasks":[{tasks}]}}'.encode()


def page(tasks: Iterable[Listed], cursor: str | None) -> bytes:
    """Write a page of a list, and the cursor of the next one."""
    listed = ",".join([_object(_head(each)) for each in tasks])
    return f'{{"tasks":[{listed}],"next":{text(cursor)}}}'.encode()


def task(row: Any, *, error: str | None, result: str | None, result_location: str | None) -> bytes:
    """Write a row of ``reading.READ``.

    ``error``: its message, opened. ``result``: JSON. ``result_location``: where it is instead.
    """
    position, starts_at = _forecast(row)
    return _object(
        (
            *_head(row),
            ("cancel_requested", "true" if row.cancel_requested else "false"),
            ("due_at", instant(row.due_at)),
            ("position", "null" if position is None else str(position)),
            ("estimated_start_at", instant(starts_at)),
            ("progress", row.progress or "null"),
            ("result", result or "null"),
            ("result_location", text(result_location)),
            ("error", text(error)),
        )
    ).encode()


def _head(row: Any) -> tuple[tuple[str, str], ...]:
    return (
        ("task_id", f'"{row.task_id}"'),
        ("type", _text(row.type)),
        ("queue", _text(row.queue)),
        ("owner_id", _text(row.owner_id)),
        ("status", f'"{row.status}"'),
        ("priority", str(row.priority)),
        ("attempts", str(row.attempts)),
        ("max_attempts", str(row.max_attempts)),
        ("partition_key", text(key_of(row.owner_id, row.partition_key))),
        ("correlation_id", text(row.correlation_id)),
        ("created_at", instant(row.created_at)),
        ("scheduled_at", instant(row.scheduled_at)),
        ("started_at", instant(row.started_at)),
        ("finished_at", instant(row.finished_at)),
    )


def _object(members: Iterable[tuple[str, str]]) -> str:
    inside = ",".join([f'"{name}":{value}' for name, value in members])
    return f"{{{inside}}}"


def text(value: str | None) -> str:
    """Write a text, or null."""
    return "null" if value is None else _text(value)


def instant(value: datetime | None) -> str:
    """Write an instant in UTC, or null."""
    return "null" if value is None else f'"{in_utc(value)}"'


def in_utc(value: datetime) -> str:
    """Write an instant in UTC, as RFC 3339 does."""
    return f"{value.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"


def _forecast(row: Any) -> tuple[int | None, datetime | None]:
    if row.due_at is None:
        return None, None
    position, seconds = forecast(
        due_in=(row.due_at - row.asked_at).total_seconds(),
        ahead=row.ahead,
        depth=row.depth,
        oldest_age=row.oldest_age,
        drain_rate=row.drain_rate,
        held=row.held,
    )
    return position, None if seconds is None else row.asked_at + timedelta(seconds=seconds)
