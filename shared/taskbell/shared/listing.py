"""Lists of tasks, newest first, page by page."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Final
from uuid import UUID

from taskbell.shared.connections import Runner
from taskbell.shared.lifecycle import TaskStatus
from taskbell.shared.statements import listing

MOST: Final = 200
"""Most tasks on a page."""

_NEWEST: Final = UUID(int=(1 << 128) - 1)
# Tasks of these states are few and stand in tables of their own, in the order of their ids.
_HOT: Final = {
    TaskStatus.PENDING: "outbox",
    TaskStatus.RETRYING: "outbox",
    TaskStatus.IN_PROGRESS: "lease",
    TaskStatus.FAILED: "dead_letter",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which tasks a list is about; None is any."""

    status: TaskStatus | None = None
    type: str | None = None
    queue: str | None = None
    correlation_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A task in a list: what it is, without what it was given and what it answered."""

    task_id: UUID
    type: str
    queue: str
    owner_id: str
    status: str
    priority: int
    attempts: int
    max_attempts: int
    partition_key: str | None
    correlation_id: str | None
    created_at: datetime
    scheduled_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


_FIELDS: Final = tuple(each.name for each in fields(Listed))


@dataclass(frozen=True, slots=True)
class Page:
    """Tasks, newest first, and where the next page begins.

    ``next`` may be set although there are few tasks, or none: a page looks at a bounded number of
    tasks. None: there are no more.
    """

    tasks: list[Listed]
    next: UUID | None


async def list_many(
    runner: Runner,
    wanted: Wanted,
    *,
    owner_id: str | None,
    before: UUID | None = None,
    limit: int = 50,
) -> Page:
    """Return a page of tasks whose ids are less than ``before``; raises ``DatabaseAway``.

    ``owner_id``: None lists every owner's. ``limit``: 1 to ``MOST``. A page never shows a task
    twice nor leaves one out, whatever is added meanwhile; a task that changed its state between
    two pages is listed as it was when its page was made.
    """
    filters: dict[str, object] = {
        "status": wanted.status,
        "type": wanted.type,
        "queue": wanted.queue,
        "correlation_id": wanted.correlation_id,
        "owner_id": owner_id,
    }
    given = {name: value for name, value in filters.items() if value is not None}
    # The owner is a filter even where its index is walked: nothing else may keep owners apart.
    statement = listing.page(_walk(wanted, owner_id), frozenset(given))
    rows = await runner.run(statement, before=before or _NEWEST, limit=limit, **given)
    found = [row for row in rows if row.task_id is not None]
    # Behind ``last`` the columns are the fields, in their order.
    tasks = [Listed(**dict(zip(_FIELDS, row[1:], strict=True))) for row in found[:limit]]
    return Page(tasks, tasks[-1].task_id if len(found) > limit else rows[0].last)


def _walk(wanted: Wanted, owner_id: str | None) -> str:
    """Choose the index that has the fewest rows to look at."""
    if wanted.correlation_id is not None:
        # Within the owner: what others do under the same name neither shows nor takes time.
        return "owner's correlation" if owner_id else "correlation"
    if owner_id:
        return "owner"
    return "task" if wanted.status is None else _HOT.get(wanted.status, "task")
