"""The machine: any order of the real statements, each answer and all rows as the model says."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, TypeVar
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from integration.model.model import Asked, Instant, Model, Task, rank
from integration.model.picture import broken, picture
from integration.model.pipeline import LEASES, UNIT, Pipeline
from taskbell.consumer.leases import Lease
from taskbell.consumer.transaction import Isolation
from taskbell.shared import dead_letters, queues, tasks
from taskbell.shared.ids import TaskId
from taskbell.shared.lifecycle import (
    Completed,
    Diagnosis,
    Failed,
    Outcome,
    Rejected,
    Released,
    Settlement,
    Snoozed,
    Stopped,
    TaskStatus,
    settle,
)

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., None])
Fence = tuple[str, UUID, int]
"""Worker, task and attempt."""

_CAUSES: Final = ("one", "another")
_LONG_AGO: Final = 0x0170_0000_0000
_FAR_OFF: Final = 0x0500_0000_0000
_STRIDE: Final = 379
_IDS: Final = 1009
_REAPED: Final = (TaskStatus.RETRYING, TaskStatus.FAILED, TaskStatus.CANCELLED)

workers = st.sampled_from(("w1", "w2", "w3"))
lanes = st.sampled_from(("a", "b"))
partition_keys = st.sampled_from(("k", "l"))
later = st.sampled_from((0, 0, 1, 3))
limits = st.integers(1, 4)
diagnoses = st.sampled_from([Diagnosis("E", cause, f"bad {cause}", "…") for cause in _CAUSES])
FAILURES: Final[st.SearchStrategy[tuple[Outcome, int]]] = st.one_of(
    st.tuples(st.builds(Failed, diagnoses), later),
    st.tuples(st.builds(Rejected, diagnoses), st.just(0)),
)
ANYTHING: Final[st.SearchStrategy[tuple[Outcome, int]]] = st.one_of(
    st.tuples(st.builds(Completed, st.sampled_from((None, '{"n": 1}'))), st.just(0)),
    FAILURES,
    st.tuples(st.builds(Snoozed, st.sampled_from((1.0, 3.0)), st.booleans()), st.just(0)),
    st.tuples(st.builds(Released, st.sampled_from((0.0, 0.0, 1.0))), st.just(0)),
    st.tuples(st.builds(Stopped), st.just(0)),
)
"""What a handler does, and the retry policy's answer; delays in units of the model's time."""
requests = st.builds(
    Asked,
    task_id=st.just(UUID(int=0)),
    young=st.sampled_from((False, False, False, True)),
    type=st.sampled_from(tuple(LEASES)),
    queue=st.sampled_from(("a", "a", "b")),
    priority=st.sampled_from((0, 5, 5, 9)),
    max_attempts=st.integers(1, 3),
    partition_key=st.sampled_from((None, None, "k", "k", "l")),
    delay=later,
    idempotency_key=st.sampled_from((None, None, None, "x", "y")),
)
bare_requests = st.sampled_from((None, "x")).map(
    lambda key: Asked(UUID(int=0), young=False, idempotency_key=key)
)
"""So alike that a key is often met again with the same request."""


def _some(what: Callable[[Task], object]) -> Callable[["Machine"], bool]:
    return lambda machine: any(map(what, machine.model.tasks.values()))


def _can_claim(machine: "Machine") -> bool:
    return bool(machine.model.claimable())


def _can_promote(machine: "Machine") -> bool:
    return bool(machine.model.vacant())


def _has_leases(machine: "Machine") -> bool:
    return bool(machine.leases)


_has_tasks = _some(lambda _: True)
_has_dead = _some(lambda task: task.letter)
_has_running = _some(lambda task: task.lease)
_has_final = _some(lambda task: task.finished is not None)
_has_entries = _some(lambda task: task.entry)
_has_marks = _some(lambda task: task.entry and task.entry.marked is not None)


def _has_queues(machine: "Machine") -> bool:
    return bool(machine.model.queues)


def _has_holds(machine: "Machine") -> bool:
    return bool(machine.model.holds)


@dataclass(frozen=True)
class Step:
    """One kind of step: how often it is taken among others, when at all, and what is drawn."""

    weight: int
    when: Callable[["Machine"], bool]
    arguments: dict[str, st.SearchStrategy[Any]]
    take: Callable[..., None]
    draws: bool
    """Whether it draws more, depending on what there is."""


STEPS: Final[dict[str, Step]] = {}
RARE: Final = (
    "cancel", "pause", "set_on_dead", "redrive", "discard", "reap", "time_passes", "effect",
    "settle", "announce", "prune",
)  # fmt: skip


def _step(
    weight: int, when: Callable[["Machine"], bool] = lambda _: True,
    **arguments: st.SearchStrategy[Any],
) -> Callable[[F], F]:  # fmt: skip
    def note(take: F) -> F:
        draws = "drawn" in take.__annotations__
        STEPS[take.__name__] = Step(weight, when, arguments, take, draws)
        return take

    return note


class Machine(RuleBasedStateMachine):
    """One example: an empty database and an empty model, and then the same steps on both."""

    pipeline: ClassVar[Pipeline]

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.leases: dict[Fence, Lease] = {}
        self.minted = 0
        self.barred: set[str] = set()

    @initialize(batch=st.lists(st.one_of(requests, bare_requests), min_size=1, max_size=6))
    def begin(self, batch: list[Asked]) -> None:
        self.pipeline.begin()
        self._enqueue([replace(a, task_id=self.mint(young=a.young)) for a in batch], True)  # noqa: FBT003

    @initialize(names=st.sets(st.sampled_from(RARE), max_size=4))
    def bar(self, names: set[str]) -> None:
        """Do without some steps, so that what they would disturb can go on for longer."""
        self.barred = names

    @rule(drawn=st.data())
    def go_on(self, drawn: st.DataObject) -> None:
        """Take a step. Rules of their own would be switched off at random, most of them often."""
        names = [
            name for name, step in STEPS.items() if name not in self.barred and step.when(self)
            for _ in range(step.weight)
        ]  # fmt: skip
        step = STEPS[drawn.draw(st.sampled_from(names), label="step")]
        given = {name: drawn.draw(each, label=name) for name, each in step.arguments.items()}
        step.take(self, **({"drawn": drawn} if step.draws else {}), **given)

    @invariant()
    def the_tables_hold_what_the_model_says_and_the_invariants_hold(self) -> None:
        found, findings = self.pipeline.look()
        assert found == picture(self.model)
        assert broken(found["tasks"] or {}) == []
        assert findings == []
        self.model.step += 1

    # What is drawn.

    def some(self, drawn: st.DataObject, what: list[T], count: int = 3) -> list[T]:
        return drawn.draw(
            st.lists(st.sampled_from(what), min_size=1, max_size=count, unique=True)
        )  # fmt: skip

    def ids(self, wanted: list[Task]) -> list[UUID]:
        return [task.asked.task_id for task in wanted]

    def dead(self, drawn: st.DataObject) -> list[UUID]:
        """Those with a dead letter, or any."""
        everything = drawn.draw(st.integers(0, 3)) == 3
        return self.ids(self.model.those(lambda task: everything or task.letter))

    def mint(self, *, young: bool) -> UUID:
        """A new id; their order is not the order in which they are minted."""
        self.minted += 1
        n = self.minted * _STRIDE % _IDS
        return UUID(int=((_FAR_OFF if young else _LONG_AGO) + n) << 80 | 7 << 76 | 2 << 62 | n)

    def party(self, drawn: st.DataObject) -> tuple[str, list[Fence]]:
        """A worker and leases it believes to hold: mostly its own, some of them lost long ago."""
        held = [each for each in self.leases if self.model.holder(*each)]
        worker = drawn.draw(st.sampled_from([each[0] for each in held] * 3 + ["w1", "w2", "w3"]))
        own = [each for each in self.leases if each[0] == worker]
        pool = [each for each in held if each[0] == worker] * 3 + own
        lost = [each for each in own if each not in held and each[1] in {h[1] for h in held}]
        which = drawn.draw(st.integers(0, 5))
        if not pool or which == 1:
            pool = [*self.leases]
        elif lost and which in {2, 3}:
            pool = lost + pool[: len(lost)]
        chosen = drawn.draw(st.lists(st.sampled_from(pool), min_size=1, max_size=3))
        return worker, list({each[1:]: each for each in chosen}.values())

    # Producers.

    @_step(
        4,
        batch=st.lists(st.one_of(requests, bare_requests), min_size=1, max_size=3),
        commits=st.sampled_from((True, True, True, False)),
    )
    def enqueue(self, batch: list[Asked], commits: bool) -> None:  # noqa: FBT001 - drawn
        self._enqueue([replace(a, task_id=self.mint(young=a.young)) for a in batch], commits)

    @_step(1, _has_tasks, key=st.sampled_from((None, "x")))
    def enqueue_an_id_again(self, drawn: st.DataObject, key: str | None) -> None:
        task = self.model.tasks[drawn.draw(st.sampled_from(list(self.model.tasks)))]
        self._enqueue([replace(task.asked, idempotency_key=key)], True)  # noqa: FBT003

    def _enqueue(self, batch: list[Asked], commits: bool) -> None:  # noqa: FBT001 - as drawn
        answer = self.pipeline.enqueue(batch, commits=commits)
        if not commits:
            return
        told = [self.model.enqueue(asked) for asked in batch]
        conflicts = [task_id for task_id, _, conflict in told if conflict]
        if conflicts:
            assert answer == conflicts[0]
        else:
            assert isinstance(answer, list)
            assert [(each.task_id, each.created) for each in answer] == [t[:2] for t in told]

    # The relay.

    @_step(2, _has_entries, queue=lanes, batch=limits)
    def announce(self, queue: str, batch: int) -> None:
        first = self._first(self.model.announceable(queue), batch)
        marked = self.pipeline.announce(queue, len(first) or batch)
        assert sorted(marked) == first
        self.model.announce(marked)

    @_step(1, _has_marks)
    def take_marks_back(self, drawn: st.DataObject) -> None:
        some = self.some(drawn, list(self.model.tasks))
        assert self.pipeline.unannounce(some) == self.model.unannounce(some)

    # Workers.

    @_step(6, _can_claim, worker=workers, queue=lanes, limit=limits)
    def claim_by_queue(self, worker: str, queue: str, limit: int) -> None:
        candidates = [task for task in self.model.claimable() if task.asked.queue == queue]
        first = self._first(candidates, limit)
        verb = self.pipeline.claims(worker).by_queue(queue, len(first) or limit)
        self._claimed(worker, self.pipeline.do(verb), first)

    @_step(4, _can_claim, worker=workers)
    def claim_by_ids(self, drawn: st.DataObject, worker: str) -> None:
        named = self.some(drawn, list(self.model.tasks), 6)
        expected = sorted({*self.ids(self.model.claimable())} & {*named})
        ids = [TaskId(each) for each in named]
        verb = self.pipeline.claims(worker).by_ids(ids, len(ids))
        self._claimed(worker, self.pipeline.do(verb), expected)

    @_step(1, _has_entries, worker=workers)
    def claim_in_vain(self, worker: str) -> None:
        """Whatever is parked, due later or of a paused queue; running, or ended."""
        ids = [TaskId(each) for each in {*self.model.tasks} - {*self.ids(self.model.claimable())}]
        assert self.pipeline.do(self.pipeline.claims(worker).by_ids(ids, 100)) == []

    def _first(self, candidates: list[Task], limit: int) -> list[UUID]:
        """The first so many, and whoever ties with the last: chance orders those."""
        ranks = sorted(map(rank, candidates))[:limit]
        return sorted(self.ids([task for task in candidates if rank(task) <= ranks[-1]]))

    def _claimed(self, worker: str, taken: list[Lease], expected: list[UUID]) -> None:
        assert sorted(lease.task_id for lease in taken) == expected
        for lease in sorted(taken, key=lambda lease: lease.task_id):
            answer = lease.attempt, lease.used, lease.announced_for is not None
            units = LEASES[lease.context.type]
            assert answer == self.model.claim(lease.task_id, worker, units)
            self.leases[worker, lease.task_id, lease.attempt] = lease

    @_step(2, _has_leases, units=st.sampled_from((1, 5)))
    def beat(self, drawn: st.DataObject, units: int) -> None:
        worker, party = self.party(drawn)
        fences = [fence[1:] for fence in party]
        told = {fence: self.model.beat(worker, *fence, units) for fence in fences}
        assert self.pipeline.beat(worker, fences, units) == told

    @_step(1, _has_running, worker=workers)
    def find_unknown_leases(self, drawn: st.DataObject, worker: str) -> None:
        known = self.some(drawn, list(self.model.tasks) or [UUID(int=0)])
        found = self.pipeline.do(self.pipeline.claims(worker).unknown(known))
        held = self.model.those(
            lambda task: (
                task.lease
                and (task.lease.worker, task.lease.expires > self.model.now) == (worker, True)
            )
        )
        assert {lease.task_id for lease in found} == set(self.ids(held)) - set(known)

    @_step(8, _has_leases)
    def settle(self, drawn: st.DataObject) -> None:
        self._settle(drawn, ANYTHING)

    @_step(5, _has_running)
    def fail(self, drawn: st.DataObject) -> None:
        self._settle(drawn, FAILURES)

    def _settle(
        self, drawn: st.DataObject, outcomes: st.SearchStrategy[tuple[Outcome, int]]
    ) -> None:
        group: list[tuple[Lease, Settlement]] = []
        worker, party = self.party(drawn)
        for fence in party:
            outcome, after = drawn.draw(outcomes)
            group.append((self.leases[fence], settle(*fence[1:], outcome, after)))
        scaled = [(each, one._replace(delay=one.delay * UNIT)) for each, one in group]
        reported = self.pipeline.settle(worker, scaled)
        for _, one in group:
            answer = self.model.settle(worker, one)
            status, current = reported[one.task_id, one.attempt]
            assert status == _report(answer, one)
            task = self.model.tasks.get(one.task_id)
            if answer == "lost":
                assert current == (task and task.attempt_count)

    @_step(
        3,
        _has_running,
        key=st.sampled_from((None, None, "order 1", "order 2")),
        isolation=st.sampled_from(("READ COMMITTED", "REPEATABLE READ")),
        fails=st.sampled_from((False, False, True)),
    )
    def effect(
        self, drawn: st.DataObject, key: str | None, isolation: Isolation,
        fails: bool,  # noqa: FBT001 - drawn
    ) -> None:  # fmt: skip
        worker, (fence, *_) = self.party(drawn)
        told = self.pipeline.effect(worker, self.leases[fence], key, isolation, fails=fails)
        if told == "failed":
            assert self.model.holder(worker, *fence[1:])
            assert key not in self.model.effects
        else:
            assert told == self.model.effect(worker, *fence[1:], key)

    # Maintenance.

    @_step(2, _has_running)
    def reap(self) -> None:
        reported = self.pipeline.reap()
        fates = Counter(self.model.reap().values())
        told = reported and (reported.retried, reported.dead, reported.cancelled)
        expected = tuple(fates[status] for status in _REAPED)
        assert told == (expected if fates else None)

    @_step(4, _can_promote)
    def promote(self) -> None:
        reported = self.pipeline.promote()
        assert (reported.heads if reported else 0) == self.model.promote()

    @_step(3, _can_promote)
    def promote_new(self) -> None:
        reported = self.pipeline.promote_new()
        assert (reported.heads if reported else 0) == self.model.promote_new()

    @_step(1, _has_final)
    def prune(self) -> None:
        reported = self.pipeline.prune()
        told = (reported.tasks, reported.effects) if reported else (0, 0)
        assert told == self.model.prune()

    @_step(4, units=st.sampled_from((2, 2, 4, 10)))
    def time_passes(self, units: int) -> None:
        self.pipeline.let_pass(units)
        self.model.now += units

    # Operators.

    @_step(2, _has_tasks)
    def cancel(self, drawn: st.DataObject) -> None:
        some = self.some(drawn, [*self.model.tasks, UUID(int=1)], drawn.draw(st.integers(1, 3)))
        told = self.pipeline.do(tasks.cancel_many(self.pipeline.connection, some, actor="me"))
        assert told == self.model.cancel(some)

    @_step(1, _has_tasks)
    def ask_where_a_task_is(self, drawn: st.DataObject) -> None:
        task = self.model.tasks[drawn.draw(st.sampled_from(list(self.model.tasks)))]
        there = self.pipeline.do(tasks.find(self.pipeline.connection, task.asked.task_id))
        assert there is not None
        assert (there.status, there.attempt, there.used) == (
            task.status, task.attempt_count, task.used,
        )  # fmt: skip
        holder = self.model.holds.get(task.partition) if task.partition else None
        assert there.held_by == holder
        assert "must not be" not in str(there)

    @_step(3, _has_dead, delay=later)
    def redrive(self, drawn: st.DataObject, delay: int) -> None:
        some = self.some(drawn, self.dead(drawn))
        verb = dead_letters.redrive_many(
            self.pipeline.connection, some, actor="me", delay=delay * UNIT
        )
        assert set(self.pipeline.do(verb)) == self.model.redrive(some, delay)

    @_step(1, _has_dead, cause=st.sampled_from((*_CAUSES, "LeaseExpired")))
    def redrive_by_cause(self, cause: str) -> None:
        only = dead_letters.Filters(fingerprint=cause)
        verb = dead_letters.redrive_all(self.pipeline.connection, only, actor="me")
        dead = self.model.those(lambda task: task.letter and task.letter.fingerprint == cause)
        assert self.pipeline.do(verb) == len(self.model.redrive(self.ids(dead)))

    @_step(1, _has_dead)
    def discard(self, drawn: st.DataObject) -> None:
        some = self.some(drawn, self.dead(drawn), 2)
        verb = dead_letters.discard_many(self.pipeline.connection, some, actor="me")
        assert set(self.pipeline.do(verb)) == self.model.discard(some)

    @_step(1, _has_dead)
    def read_the_dead_letters(self) -> None:
        letters = self.pipeline.do(dead_letters.list_many(self.pipeline.connection))
        failed: list[Instant] = []
        for each in letters:
            letter = self.model.tasks[each.task_id].letter
            assert letter is not None
            failed.append(letter.failed)
        assert failed == sorted(failed, reverse=True)
        assert len(failed) == len(self.model.those(lambda task: task.letter))

    @_step(1, queue=lanes, units=st.sampled_from((None, 1, 3)))
    def pause(self, queue: str, units: int | None) -> None:
        self.pipeline.do(
            queues.pause(
                self.pipeline.connection, queue, actor="me", seconds=units and units * UNIT
            )
        )
        self.model.pause(queue, units)

    @_step(1, _has_queues, queue=lanes)
    def resume(self, queue: str) -> None:
        told = self.pipeline.do(queues.resume(self.pipeline.connection, queue, actor="me"))
        assert told == self.model.resume(queue)

    @_step(1, queue=lanes, on_dead=st.sampled_from(("hold", "continue")))
    def set_on_dead(self, queue: str, on_dead: queues.OnDead) -> None:
        told = self.pipeline.do(
            queues.set_on_dead(self.pipeline.connection, queue, on_dead, actor="me")
        )
        assert told == self.model.set_on_dead(queue, on_dead)

    @_step(2, _has_holds, queue=lanes, key=st.one_of(st.none(), partition_keys))
    def release(self, queue: str, key: str | None) -> None:
        told = self.pipeline.do(queues.release(self.pipeline.connection, queue, key, actor="me"))
        assert set(told) == self.model.release(queue, key)


def _report(answer: str, one: Settlement) -> str | None:
    """What a worker makes of an answer."""
    status = answer.removeprefix("already ")
    if answer == "lost" or (one.verdict == "completed" and status not in {answer, "COMPLETED"}):
        return None
    return status
