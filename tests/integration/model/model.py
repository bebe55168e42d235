"""The life of tasks in plain Python: what each statement answers, and what it leaves behind.

Time is counted in half hours, and passes by even numbers of them; everything that lies ahead lies
at an odd distance. So nothing ever becomes due while a test looks: half an hour, not the speed of
the machine, decides. An instant is ``(time, step)``: between two steps the clock does move on.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from uuid import UUID

from taskbell.shared.lifecycle import Settlement, TaskStatus, next_status

Instant = tuple[int, int]
Partition = tuple[str, str]
KEEP = 1
"""How long what is final is kept."""
MARK_AGE = 1
FINAL = {TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED}


@dataclass(frozen=True)
class Asked:
    """What a producer asks for."""

    task_id: UUID
    young: bool
    """Its id was minted so late that it is never pruned."""
    type: str = "short"
    queue: str = "a"
    priority: int = 5
    max_attempts: int = 2
    partition_key: str | None = None
    delay: int = 0
    idempotency_key: str | None = None

    @property
    def request(self) -> tuple[object, ...]:
        """What the same key must come with again."""
        return (self.type, self.queue, self.priority, self.max_attempts, self.partition_key,
                self.delay)  # fmt: skip


@dataclass
class Entry:
    """One row of ``outbox``."""

    due: Instant
    parked: bool = False
    marked: int | None = None


@dataclass
class Lease:
    """One row of ``lease``."""

    worker: str
    attempt: int
    expires: int
    cancel_requested: bool = False


@dataclass
class Letter:
    """One row of ``dead_letter``."""

    failed: Instant
    attempt: int
    fingerprint: str | None
    worker: str


@dataclass(eq=False)
class Task:
    """One task with everything that is its own."""

    asked: Asked
    seq: int
    entry: Entry | None
    status: TaskStatus = TaskStatus.PENDING
    attempt_count: int = 0
    refunded: int = 0
    finished: int | None = None
    error: str | None = None
    lease: Lease | None = None
    letter: Letter | None = None
    failures: dict[int, tuple[str, str]] = field(default_factory=dict[int, tuple[str, str]])

    @property
    def partition(self) -> Partition | None:
        """Its queue and key, if it has one."""
        key = self.asked.partition_key
        return None if key is None else (self.asked.queue, key)

    @property
    def used(self) -> int:
        """The tries used."""
        return self.attempt_count - self.refunded


@dataclass
class Queue:
    """What was decided about a queue."""

    paused: bool = False
    paused_until: int | None = None
    on_dead: str = "continue"


def rank(task: Task) -> tuple[int, Instant]:
    """Where a waiting task stands: by priority, then by due time."""
    assert task.entry is not None
    return -task.asked.priority, task.entry.due


class Model:
    """All tasks, queues, holds, keys and effects."""

    def __init__(self) -> None:
        self.now = 0
        self.step = 0
        self.tasks: dict[UUID, Task] = {}
        self.queues: dict[str, Queue] = {}
        self.holds: dict[Partition, UUID] = {}
        self.keys: dict[str, tuple[UUID, tuple[object, ...]]] = {}
        self.effects: dict[str, tuple[UUID, int]] = {}
        self.ledger: list[UUID] = []
        self._sequence = 0
        self._newest = 0

    # What there is.

    def those(self, what: Callable[[Task], object]) -> list[Task]:
        """The tasks for which this is so, oldest first."""
        return [task for task in self.tasks.values() if what(task)]

    def runs(self, queue: str) -> bool:
        """Whether a queue may be claimed."""
        known = self.queues.get(queue, Queue())
        return not (known.paused or (known.paused_until or 0) > self.now)

    def is_due(self, task: Task) -> bool:
        """Whether an entry is the head of its line and due."""
        return task.entry is not None and not task.entry.parked and task.entry.due[0] <= self.now

    def claimable(self) -> list[Task]:
        """What a claim may answer."""
        return self.those(lambda task: self.is_due(task) and self.runs(task.asked.queue))

    def announceable(self, queue: str) -> list[Task]:
        """What an announcement may name."""
        return self.those(
            lambda task: (
                task.asked.queue == queue
                and self.is_due(task)
                and task.entry is not None
                and (task.entry.marked is None or task.entry.marked + MARK_AGE < self.now)
            )
        )

    def holder(self, worker: str, task_id: UUID, attempt: int) -> Task | None:
        """The task whose lease this fence names."""
        task = self.tasks.get(task_id)
        if task is None or task.lease is None:
            return None
        return task if (task.lease.worker, task.lease.attempt) == (worker, attempt) else None

    # Enqueue, announce, claim, beat.

    def enqueue(self, asked: Asked) -> tuple[UUID, bool, bool]:
        """The task the request stands for, whether it is new, whether it is another's key."""
        first = self.keys.get(asked.idempotency_key or "")
        if first is not None and first != (asked.task_id, asked.request):
            return first[0], False, first[1] != asked.request
        if asked.task_id in self.tasks:
            return asked.task_id, False, False
        if asked.idempotency_key is not None:
            self.keys[asked.idempotency_key] = asked.task_id, asked.request
        self._sequence += 1
        due = self.now + asked.delay, self.step
        entry = Entry(due, parked=asked.partition_key is not None)
        self.tasks[asked.task_id] = Task(asked, self._sequence, entry)
        return asked.task_id, True, False

    def announce(self, task_ids: Iterable[UUID]) -> None:
        """Mark these."""
        for task_id in task_ids:
            entry = self.tasks[task_id].entry
            assert entry is not None
            entry.marked = self.now

    def unannounce(self, task_ids: Iterable[UUID]) -> set[UUID]:
        """Take the marks back; answers which had one."""
        marked = {each for each in task_ids if (t := self.tasks.get(each)) and _is_marked(t)}
        for task_id in marked:
            entry = self.tasks[task_id].entry
            assert entry is not None
            entry.marked = None
        return marked

    def claim(self, task_id: UUID, worker: str, seconds: int) -> tuple[int, int, bool]:
        """Lease it; answers attempt, tries used, and whether it was announced."""
        task = self.tasks[task_id]
        assert task.entry is not None
        announced = _is_marked(task)
        task.entry = None
        task.status = TaskStatus.IN_PROGRESS
        task.attempt_count += 1
        task.lease = Lease(worker, task.attempt_count, self.now + seconds)
        return task.attempt_count, task.used, announced

    def beat(self, worker: str, task_id: UUID, attempt: int, seconds: int) -> str:
        """Extend a lease; answers what the holder is told."""
        task = self.holder(worker, task_id, attempt)
        if task is None or task.lease is None:
            return "lost"
        task.lease.expires = self.now + seconds
        return "cancel" if task.lease.cancel_requested else "held"

    # The ends of an attempt.

    def settle(self, worker: str, one: Settlement) -> str:
        """End an attempt; answers the new status, ``already …`` or ``lost``."""
        task = self.holder(worker, one.task_id, one.attempt)
        if task is not None:
            if one.hold_queue:
                queue = self.queues.setdefault(task.asked.queue, Queue())
                until = self.now + int(one.delay)
                queue.paused_until = max(queue.paused_until or until, until)
            self._end(task, one)
            return task.status
        settled = self.tasks.get(one.task_id)
        if settled is None:
            return "lost"
        if settled.status in FINAL and settled.attempt_count == one.attempt:
            return f"already {settled.status}"
        retried = settled.failures.get(one.attempt) == ("retry", worker)
        return "already RETRYING" if retried else "lost"

    def reap(self) -> dict[UUID, TaskStatus]:
        """Take back every lease that ran out; answers what became of each."""
        expired = self.those(lambda task: task.lease and task.lease.expires <= self.now)
        for task in expired:
            self._end(task, Settlement(task.asked.task_id, task.attempt_count, "lost"))
        return {task.asked.task_id: task.status for task in expired}

    def effect(self, worker: str, task_id: UUID, attempt: int, key: str | None) -> str:
        """An effect from begin to commit: ``run``, ``seen`` or ``lost``."""
        if self.holder(worker, task_id, attempt) is None:
            return "lost"
        seen = key in self.effects
        if not seen:
            self.ledger.append(task_id)
            if key is not None:
                self.effects[key] = task_id, self.now
        self.settle(worker, Settlement(task_id, attempt, "completed"))
        return "seen" if seen else "run"

    def _end(self, task: Task, one: Settlement) -> None:
        lease, task.lease = task.lease, None
        assert lease is not None
        task.status = next_status(
            one.verdict, used=task.used, max_attempts=task.asked.max_attempts,
            cancel_requested=lease.cancel_requested,
        )  # fmt: skip
        error = one.diagnosis.error if one.diagnosis else None
        fingerprint = one.diagnosis.fingerprint if one.diagnosis else None
        if one.verdict == "lost":
            error, fingerprint = "the lease expired", "LeaseExpired"
        if one.verdict in {"release", "snooze"}:
            task.refunded += 1
        if one.verdict in {"retry", "fail", "lost"}:
            task.failures[one.attempt] = one.verdict, lease.worker
        task.error = None if task.status == TaskStatus.COMPLETED else error or task.error
        if task.status not in FINAL:
            task.entry = Entry((self.now + int(one.delay), self.step))
            return
        task.finished = self.now
        if task.status == TaskStatus.FAILED:
            instant = self.now, self.step
            task.letter = Letter(instant, one.attempt, fingerprint, lease.worker)
        self._vacate(task, well=task.status == TaskStatus.COMPLETED)

    # Partitions.

    def vacant(self) -> set[Partition]:
        """The partitions that wait, have no head and are not held."""
        waiting = {task.partition for task in self.those(_is_parked) if task.partition}
        return waiting - {task.partition for task in self.those(_is_head)} - set(self.holds)

    def promote(self) -> int:
        """Make heads for all vacant partitions; answers how many."""
        vacant = self.vacant()
        for partition in vacant:
            self._hand_over(partition)
        return len(vacant)

    def promote_new(self) -> int:
        """The same, if something was enqueued or parked with a higher number than seen so far."""
        newest = max((task.seq for task in self.those(_is_parked)), default=0)
        if newest <= self._newest:
            return 0
        self._newest = newest
        return self.promote()

    def release(self, queue: str, key: str | None) -> set[str]:
        """Lift the hold of a partition, or all of a queue; answers their keys."""
        lifted = {each for each in self.holds if each[0] == queue and key in {None, each[1]}}
        for partition in lifted:
            del self.holds[partition]
            self._hand_over(partition)
        return {each[1] for each in lifted}

    def _vacate(self, task: Task, *, well: bool, sparing: Collection[UUID] = ()) -> None:
        """The head of a partition ended."""
        if task.partition is None:
            return
        queue = self.queues.get(task.asked.queue, Queue())
        if not well and queue.on_dead == "hold":
            self.holds[task.partition] = task.asked.task_id
        else:
            self._hand_over(task.partition, sparing)

    def _hand_over(self, partition: Partition, sparing: Collection[UUID] = ()) -> None:
        line = [
            task for task in self.those(_is_parked)
            if task.partition == partition and task.asked.task_id not in sparing
        ]  # fmt: skip
        if line:
            entry = min(line, key=lambda task: task.seq).entry
            assert entry is not None
            entry.parked = False
            entry.due = max(entry.due, (self.now, self.step))

    def _lift(self, task: Task) -> bool:
        partition = task.partition
        if partition is None or self.holds.get(partition) != task.asked.task_id:
            return False
        del self.holds[partition]
        return True

    # What operators and maintenance do.

    def cancel(self, task_ids: Collection[UUID]) -> dict[UUID, str]:
        """Cancel these; answers one word for each."""
        return {task_id: self._cancel(task_id, task_ids) for task_id in sorted(task_ids)}

    def _cancel(self, task_id: UUID, together: Collection[UUID]) -> str:
        task = self.tasks.get(task_id)
        if task is None:
            return "unknown"
        if task.lease is not None:
            task.lease.cancel_requested = True
            return "requested"
        if task.entry is None:
            return f"too late: {task.status}"
        parked, task.entry = task.entry.parked, None
        task.status, task.finished = TaskStatus.CANCELLED, self.now
        if not parked:
            self._vacate(task, well=False, sparing=together)
        return "cancelled"

    def redrive(self, task_ids: Iterable[UUID], delay: int = 0) -> set[UUID]:
        """Make these PENDING again; answers those that had a dead letter."""
        dead = {each for each in task_ids if (t := self.tasks.get(each)) and t.letter}
        for task in map(self.tasks.__getitem__, dead):
            head = self._lift(task)
            task.letter = task.finished = None
            task.status = TaskStatus.PENDING
            task.refunded = task.attempt_count
            parked = task.partition is not None and not head
            task.entry = Entry((self.now + delay, self.step), parked)
        return dead

    def discard(self, task_ids: Iterable[UUID]) -> set[UUID]:
        """Forget these; answers those that had a dead letter."""
        dead = {each for each in task_ids if (t := self.tasks.get(each)) and t.letter}
        for task in map(self.tasks.__getitem__, dead):
            if self._lift(task) and task.partition:
                self._hand_over(task.partition)
        self._forget(dead)
        return dead

    def pause(self, queue: str, seconds: int | None) -> None:
        """Let nothing of it be claimed."""
        known = self.queues.setdefault(queue, Queue())
        known.paused = seconds is None
        known.paused_until = None if seconds is None else self.now + seconds

    def resume(self, queue: str) -> bool:
        """Let it be claimed again; answers whether there was anything to take back."""
        known = self.queues.get(queue, Queue())
        was = known.paused or known.paused_until is not None
        known.paused, known.paused_until = False, None
        return was

    def set_on_dead(self, queue: str, on_dead: str) -> int:
        """Decide what bad ends do; answers how many partitions are held."""
        self.queues.setdefault(queue, Queue()).on_dead = on_dead
        return sum(each[0] == queue for each in self.holds)

    def prune(self) -> tuple[int, int]:
        """Forget what ended well long ago; answers how many tasks and effects."""
        old = self.those(self._is_old)
        self._forget(task.asked.task_id for task in old)
        live = {task.asked.task_id for task in self.those(lambda task: task.finished is None)}
        stale = [
            key for key, (task_id, at) in self.effects.items()
            if at + KEEP < self.now and task_id not in live
        ]  # fmt: skip
        for key in stale:
            del self.effects[key]
        return len(old), len(stale)

    def _is_old(self, task: Task) -> bool:
        return (
            task.status in {TaskStatus.COMPLETED, TaskStatus.CANCELLED}
            and task.finished is not None
            and task.finished + KEEP < self.now
            and not task.asked.young
        )

    def _forget(self, task_ids: Iterable[UUID]) -> None:
        gone = set(task_ids)
        self.tasks = {each: task for each, task in self.tasks.items() if each not in gone}
        self.keys = {key: first for key, first in self.keys.items() if first[0] not in gone}


def _is_parked(task: Task) -> bool:
    return task.entry is not None and task.entry.parked


def _is_head(task: Task) -> bool:
    return task.lease is not None or (task.entry is not None and not task.entry.parked)


def _is_marked(task: Task) -> bool:
    return task.entry is not None and task.entry.marked is not None
