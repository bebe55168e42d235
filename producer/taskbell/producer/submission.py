"""Requests turned into statements, and rows into answers. Pure: sync and async share it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

from taskbell.producer.ask import Ask, Discreet, ask_for
from taskbell.producer.new_task import NewTask
from taskbell.producer.terms import Terms
from taskbell.shared.array import array, quoted, quoted_bytes, quoted_instant
from taskbell.shared.errors import IdempotencyConflict
from taskbell.shared.ids import TaskId
from taskbell.shared.statement import Statement

_WRITERS: dict[str, Callable[..., str]] = {
    "id": attrgetter("hex"),
    "owner_id": quoted,
    "type": quoted,
    "queue": quoted,
    "partition_key": quoted,
    "correlation_id": quoted,
    "scheduled_at": quoted_instant,
    "delay": repr,
    "max_attempts": str,
    "priority": str,
    "payload": quoted,
    "key_hash": quoted_bytes,
    "request_hash": quoted_bytes,
}

Row = tuple[Any, ...]
"""What a birth answers for each task asked for: ``task_id, created, same_request, rung``.

Of a batch ``task_id`` is None where it is the id that was asked for.
"""

Rows = Sequence[Row]


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The task a request stands for, and whether this request created it."""

    task_id: TaskId
    created: bool


@dataclass(frozen=True, slots=True)
class Submission:
    """One statement and its parameters, ready to run."""

    statement: Statement
    parameters: dict[str, object]


def submission_of_one(
    request: NewTask, terms: Terms, traceparent: str | None, now: datetime
) -> Submission:
    """Prepare one request; raises ``InvalidTask``."""
    ask = ask_for(request, terms, now)
    parameters: dict[str, object] = {**ask._asdict(), "traceparent": traceparent}
    if ask.key_hash is not None:
        return Submission(terms.births.one_with_key, parameters)
    del parameters["key_hash"], parameters["request_hash"]
    return Submission(terms.births.one, parameters)


def submission_of_many(asks: Sequence[Ask], terms: Terms, traceparent: str | None) -> Submission:
    """Prepare at least one request for one statement."""
    columns = zip(Ask._fields, zip(*asks, strict=True), strict=True)
    parameters: dict[str, object] = {
        name: array(_WRITERS[name], column) for name, column in columns
    }
    parameters["payload"] = Discreet(parameters["payload"])
    parameters["traceparent"] = traceparent
    if any(ask.key_hash is not None for ask in asks):
        return Submission(terms.births.many_with_keys, parameters)
    del parameters["key_hash"], parameters["request_hash"]
    return Submission(terms.births.many, parameters)


def answer(request: NewTask, row: Row) -> Enqueued:
    """Read a row; raises ``IdempotencyConflict`` if the key was first used for another request."""
    task_id, created, same_request, _ = row
    if not same_request:
        raise IdempotencyConflict(request.idempotency_key or "", task_id)
    return Enqueued(TaskId(task_id), created)
