"""Tasks for operators: where is it, what does it wait for, and cancel it."""

from collections.abc import Iterable
from uuid import UUID

from taskbell.shared.database import DedicatedConnection
from taskbell.shared.statements import cancel, task
from taskbell.shared.whereabouts import Whereabouts

_BATCH = 500
# A task that moved between the tables while we waited for its row is asked for again; each time it
# must be claimed, retried or reaped in that very instant.
_TRIES = 10


async def find(connection: DedicatedConnection, task_id: UUID) -> Whereabouts | None:
    """Return where the task is, or None if there is no such task (any more)."""
    rows = await connection.run(task.WHERE_IS, task_id=task_id)
    return Whereabouts(**rows[0]._asdict()) if rows else None


async def payload_of(connection: DedicatedConnection, task_id: UUID) -> object:
    """Return the payload as it was enqueued; one that is not kept in the clear is named so."""
    (row,) = await connection.run(task.PAYLOAD, task_id=task_id)
    if row.sealed:
        return "(sealed)"
    return row.payload if row.location is None else f"(at {row.location})"


async def cancel_many(
    connection: DedicatedConnection, task_ids: Iterable[UUID], *, actor: str
) -> dict[UUID, str]:
    """Cancel what waits, ask the holders of what runs; returns one answer for each id.

    ``cancelled``, ``requested`` (its holder will be told), ``too late: STATUS``, ``unknown``; and
    ``moved`` for a task that was never caught in one place, ten times in a row.
    """
    answers: dict[UUID, str] = {}
    asked = list(dict.fromkeys(task_ids))
    for start in range(0, len(asked), _BATCH):
        moved = asked[start : start + _BATCH]
        for _ in range(_TRIES):
            rows = await connection.run(cancel.CANCEL, task_ids=moved, actor=actor)
            answers |= {row.task_id: row.answer for row in rows}
            moved = [task_id for task_id in moved if answers[task_id] == "moved"]
            if not moved:
                break
    return answers
