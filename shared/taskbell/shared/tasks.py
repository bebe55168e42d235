"""Tasks for operators and owners: where is it, what does it wait for, and cancel it.

With an ``owner_id`` another owner's task is one that does not exist; None reaches every owner's.
"""

from collections.abc import Iterable, Sequence
from uuid import UUID

from taskbell.shared.connections import Runner
from taskbell.shared.kept import Kept
from taskbell.shared.statements import cancel, task
from taskbell.shared.whereabouts import Whereabouts

_BATCH = 500
# A task that moved between the tables while we waited for its row is asked for again; each time it
# must be claimed, retried or reaped in that very instant.
_TRIES = 10


async def find(runner: Runner, task_id: UUID, *, owner_id: str | None = None) -> Whereabouts | None:
    """Return where the task is, or None if there is no such task (any more)."""
    rows = await runner.run(task.WHERE_IS, task_id=task_id, owner_id=owner_id)
    return Whereabouts(**rows[0]._asdict()) if rows else None


async def payload_of(runner: Runner, task_id: UUID, *, owner_id: str | None = None) -> Kept | None:
    """Return a task's payload as it is kept; None if there is no such task."""
    rows = await runner.run(task.PAYLOAD, task_id=task_id, owner_id=owner_id)
    return Kept(*rows[0]) if rows else None


async def result_of(runner: Runner, task_id: UUID, *, owner_id: str | None = None) -> Kept | None:
    """Return a task's result as it is kept, with nothing in it if there is none (yet).

    None if there is no such task.
    """
    rows = await runner.run(task.RESULT, task_id=task_id, owner_id=owner_id)
    return Kept(*rows[0]) if rows else None


async def owned(runner: Runner, task_ids: Sequence[UUID], owner_id: str | None) -> list[UUID]:
    """Return those of the ids that are this owner's, in the order given; all of them for None."""
    if owner_id is None:
        return list(task_ids)
    found: set[UUID] = set()
    for start in range(0, len(task_ids), _BATCH):
        asked = list(task_ids[start : start + _BATCH])
        rows = await runner.run(task.OWNED, task_ids=asked, owner_id=owner_id)
        found |= {row.task_id for row in rows}
    return [task_id for task_id in task_ids if task_id in found]


async def cancel_many(
    runner: Runner, task_ids: Iterable[UUID], *, actor: str, owner_id: str | None = None
) -> dict[UUID, str]:
    """Cancel what waits, ask the holders of what runs; returns one answer for each id.

    ``cancelled``, ``requested`` (its holder will be told), ``too late: STATUS``, ``unknown``; and
    ``moved`` for a task that was never caught in one place, ten times in a row.
    """
    asked = list(dict.fromkeys(task_ids))
    answers = dict.fromkeys(asked, "unknown")
    ours = await owned(runner, asked, owner_id)
    for start in range(0, len(ours), _BATCH):
        moved = ours[start : start + _BATCH]
        for _ in range(_TRIES):
            rows = await runner.run(cancel.CANCEL, task_ids=moved, actor=actor)
            answers |= {row.task_id: row.answer for row in rows}
            moved = [task_id for task_id in moved if answers[task_id] == "moved"]
            if not moved:
                break
    return answers
