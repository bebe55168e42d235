"""Which announcements a pass publishes: one when quiet, groups of up to 100 ids when busy.

A message costs the client a third of a millisecond whatever is in it: groups carry five times as
many tasks a second as single ids.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from taskbell.shared.ids import TaskId
from taskbell.shared.limits import ANNOUNCEMENT_IDS


class Marked(Protocol):
    """An entry that was just marked: a row of the announce statement."""

    @property
    def task_id(self) -> UUID: ...
    @property
    def priority(self) -> int: ...
    @property
    def publish_at(self) -> datetime: ...


@dataclass(frozen=True, slots=True)
class Announcement:
    """1…100 task ids of one queue and one priority, the longest due first."""

    queue: str
    priority: int
    task_ids: tuple[TaskId, ...]


def coalesce(queue: str, marked: Iterable[Marked]) -> list[Announcement]:
    """Group the entries of one queue: higher priorities first, in each the longest due first."""
    levels: defaultdict[int, list[Marked]] = defaultdict(list)
    for entry in marked:
        levels[entry.priority].append(entry)
    return [
        Announcement(queue, priority, task_ids)
        for priority in sorted(levels, reverse=True)
        for task_ids in _groups(levels[priority])
    ]


def _groups(entries: Sequence[Marked]) -> list[tuple[TaskId, ...]]:
    # The id breaks ties, so that tasks due at the same instant keep the order of their birth.
    line = sorted(entries, key=lambda entry: (entry.publish_at, entry.task_id))
    ids = [TaskId(entry.task_id) for entry in line]
    return [
        tuple(ids[start : start + ANNOUNCEMENT_IDS])
        for start in range(0, len(ids), ANNOUNCEMENT_IDS)
    ]
