"""Which announcements a pass publishes."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from taskbell.relay.coalesce import coalesce
from taskbell.shared import wire
from taskbell.shared.ids import new_task_id

_NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class _Entry:
    task_id: UUID
    priority: int = 5
    publish_at: datetime = _NOON


def _entries(count: int, priority: int = 5) -> list[_Entry]:
    return [
        _Entry(new_task_id(), priority, _NOON + timedelta(milliseconds=step))
        for step in range(count)
    ]


def test_nothing_marked_is_nothing_announced() -> None:
    assert coalesce("mail", []) == []


def test_a_single_entry_is_announced_alone() -> None:
    entry = _Entry(new_task_id(), priority=7)

    (announcement,) = coalesce("mail", [entry])

    assert announcement.queue == "mail"
    assert announcement.priority == 7
    assert announcement.task_ids == (entry.task_id,)


def test_no_announcement_has_more_ids_than_the_wire_allows() -> None:
    announcements = coalesce("mail", _entries(250))

    assert [len(a.task_ids) for a in announcements] == [100, 100, 50]
    assert all(wire.decode(wire.encode(a.task_ids)) == a.task_ids for a in announcements)


def test_priorities_are_never_mixed_and_the_highest_comes_first() -> None:
    announcements = coalesce("mail", [*_entries(3, 0), *_entries(2, 9), *_entries(101, 5)])

    assert [(a.priority, len(a.task_ids)) for a in announcements] == [
        (9, 2),
        (5, 100),
        (5, 1),
        (0, 3),
    ]


def test_the_longest_due_come_first_whatever_order_the_rows_have() -> None:
    line = _entries(150)
    shuffled = sorted(line, key=lambda entry: entry.task_id.bytes[::-1])

    announcements = coalesce("mail", shuffled)

    announced = [task_id for a in announcements for task_id in a.task_ids]
    assert announced == [entry.task_id for entry in line]


def test_tasks_due_at_the_same_instant_keep_the_order_of_their_birth() -> None:
    born = [_Entry(new_task_id()) for _ in range(20)]

    (announcement,) = coalesce("mail", reversed(born))

    assert announcement.task_ids == tuple(entry.task_id for entry in born)
