"""Requests turned into statements, and rows into answers. Pure: sync and async share it."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

from taskbell.producer.ask import Ask, ask_for
from taskbell.producer.content import Discreet
from taskbell.producer.new_task import NewTask
from taskbell.producer.terms import Terms
from taskbell.shared.admission import Verdict, refusal
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
    "payload_sealed": quoted_bytes,
    "payload_location": quoted,
}

Row = tuple[Any, ...]
"""What a birth answers for each task asked for: ``task_id, created, same_request, rung``.

Of a batch ``task_id`` is None where it is the id that was asked for. A birth that asks for
admission appends the JSON of a ``Verdict`` or None; of rates, also whether the owner has one.
"""
_ANSWERED: Final = 4
_RATED: Final = 6

Roll = Callable[[], float]
"""A number from 0 to 1, by which those who are refused come back at different times."""

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
    keyed, kept = ask.key_hash is not None, ask.payload is None
    births = terms.births_for((ask.owner_id,), (ask.queue,), kept=kept)
    parameters = _parameters(ask, keyed=keyed, kept=kept)
    parameters["traceparent"] = traceparent
    return Submission(births.one_with_key if keyed else births.one, parameters)


def submission_of_many(asks: Sequence[Ask], terms: Terms, traceparent: str | None) -> Submission:
    """Prepare at least one request for one statement."""
    keyed = any(ask.key_hash is not None for ask in asks)
    kept = any(ask.payload is None for ask in asks)
    births = terms.births_for(
        (ask.owner_id for ask in asks), (ask.queue for ask in asks), kept=kept
    )
    columns = _parameters(zip(*asks, strict=True), keyed=keyed, kept=kept)
    parameters: dict[str, object] = {
        name: array(_WRITERS[name], column) for name, column in columns.items()
    }
    parameters["payload"] = Discreet(parameters["payload"])
    parameters["traceparent"] = traceparent
    return Submission(births.many_with_keys if keyed else births.many, parameters)


def _parameters(fields: Iterable[Any], *, keyed: bool, kept: bool) -> dict[str, Any]:
    """Name the fields of an ask, or columns of them, without those the statement does not take."""
    parameters = dict(zip(Ask._fields, fields, strict=True))
    if not keyed:
        del parameters["key_hash"], parameters["request_hash"]
    if not kept:
        del parameters["payload_sealed"], parameters["payload_location"]
    return parameters


def answer(request: NewTask, row: Row, terms: Terms) -> Enqueued:
    """Read a row; raises ``IdempotencyConflict`` if the key was first used for another request.

    Raises ``QueueFull`` and ``RateLimited`` if admission was asked for and refused it.
    """
    if len(row) != _ANSWERED:
        owner_id = terms.owner_of(request.owner_id)
        (row,) = admitted([row], [(owner_id, request.queue)], terms)
    task_id, created, same_request, _ = row
    if not same_request:
        raise IdempotencyConflict(request.idempotency_key or "", task_id)
    return Enqueued(TaskId(task_id), created)


def admitted(
    rows: Rows, asked: Iterable[tuple[str, str]], terms: Terms, roll: Roll = random.random
) -> Rows:
    """Return what the rows of a birth answer besides admission's verdict, and note what was seen.

    ``asked``: owner and queue of each. Raises ``QueueFull`` and ``RateLimited``: a refusal is in
    each row.
    """
    if not rows or len(rows[0]) == _ANSWERED:
        return rows
    shut = rows[0][_ANSWERED]
    if shut is not None:
        raise refusal(Verdict.read(shut), roll())
    for (owner_id, queue), row in zip(asked, rows, strict=True):
        if row[1]:  # a known task is answered though its queue be full
            terms.seen.note_room(queue)
        if len(row) == _RATED and not row[-1]:
            terms.seen.note_unrated(owner_id)
    return [row[:_ANSWERED] for row in rows]
