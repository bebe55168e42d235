"""Announcements noted and not yet claimed: which ids come next, and which go back.

Pure bookkeeping; ``now`` is monotonic seconds. An announcement is acknowledged when all of its ids
were offered to a committed claim. One that cannot be started within a second goes back whole, so
that an idle consumer takes it; ids of it that were claimed already are found claimed there.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from taskbell.shared.ids import TaskId

PATIENCE_SECONDS = 1.0


@dataclass(slots=True, eq=False)
class Announcement:
    """One delivery from the broker; ``handle`` is how the subscription knows it."""

    task_ids: deque[TaskId]
    handle: object
    noted_at: float


@dataclass(frozen=True, slots=True)
class Taken:
    """Ids for the next claim, and the announcements that end with it."""

    task_ids: list[TaskId]
    finished: list[Announcement]


@dataclass(slots=True)
class Announcements:
    """Noted announcements, oldest first."""

    _noted: deque[Announcement] = field(default_factory=deque[Announcement])

    def __bool__(self) -> bool:
        """Whether any id waits."""
        return bool(self._noted)

    def note(self, task_ids: Sequence[TaskId], handle: object, now: float) -> None:
        """Remember a delivery."""
        self._noted.append(Announcement(deque(task_ids), handle, now))

    def take(self, limit: int) -> Taken:
        """Take up to ``limit`` ids, oldest first."""
        taken = Taken([], [])
        while self._noted and len(taken.task_ids) < limit:
            first = self._noted[0]
            while first.task_ids and len(taken.task_ids) < limit:
                taken.task_ids.append(first.task_ids.popleft())
            if not first.task_ids:
                taken.finished.append(self._noted.popleft())
        return taken

    def give_back(self, now: float) -> list[Announcement]:
        """Drop and return what has waited too long."""
        late: list[Announcement] = []
        while self._noted and now - self._noted[0].noted_at >= PATIENCE_SECONDS:
            late.append(self._noted.popleft())
        return late

    def clear(self) -> list[Announcement]:
        """Drop and return everything."""
        dropped = list(self._noted)
        self._noted.clear()
        return dropped
