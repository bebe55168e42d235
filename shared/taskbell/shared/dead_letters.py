"""Dead letters for operators: read them, group them by cause, redrive them, discard them.

Every verb takes what it runs its statements on and may raise ``DatabaseAway``; what was done until
then stays done, and repeating the call does the rest. With an ``owner_id``, in the filters or by
itself, another owner's letters do not exist.
"""

from collections.abc import AsyncGenerator, Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NamedTuple, Self
from uuid import UUID

from taskbell.shared.connections import Runner
from taskbell.shared.statements import dead_letter, outbox
from taskbell.shared.tasks import owned

_BATCH = 500
_BEGINNING = ("-infinity", UUID(int=0))
_END = ("infinity", UUID(int=2**128 - 1))


@dataclass(frozen=True, slots=True)
class Filters:
    """Which dead letters; what is None does not narrow."""

    queue: str | None = None
    type: str | None = None
    owner_id: str | None = None
    fingerprint: str | None = None

    @property
    def given(self) -> dict[str, str]:
        """Those that narrow, by column."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def names(self) -> frozenset[str]:
        """The columns that narrow."""
        return frozenset(self.given)


EVERYTHING = Filters()


class Place(NamedTuple):
    """A place in the list: the letter after which the next page begins."""

    failed_at: datetime
    task_id: UUID

    @classmethod
    def read(cls, text: str) -> Self:
        """Read what ``str`` gave; raises ``ValueError``."""
        failed_at, _, task_id = text.partition("/")
        return cls(datetime.fromisoformat(failed_at), UUID(task_id))

    def __str__(self) -> str:
        """Give it as one word."""
        return f"{self.failed_at.isoformat()}/{self.task_id}"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A FAILED task's diagnosis; ``attempt_count`` counts claims over its whole life."""

    task_id: UUID
    failed_at: datetime
    attempt_count: int
    owner_id: str
    queue: str
    type: str
    partition_key: str | None
    error_class: str | None
    fingerprint: str | None
    last_error: str | None
    worker_id: str | None

    @property
    def place(self) -> Place:
        """Where it is in the list."""
        return Place(self.failed_at, self.task_id)


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """One failed attempt; ``outcome`` is ``retry``, ``fail`` or ``lost`` (the lease expired)."""

    attempt: int
    failed_at: datetime
    outcome: str
    worker_id: str | None
    error_class: str | None
    error: str | None
    traceback: str | None


@dataclass(frozen=True, slots=True)
class Inspection:
    """A dead letter and every failed attempt of its task, the first one first."""

    letter: DeadLetter
    history: tuple[FailedAttempt, ...]


@dataclass(frozen=True, slots=True)
class Cause:
    """Dead letters with one fingerprint; ``example`` and what follows are of the newest."""

    fingerprint: str | None
    dead_letters: int
    first_failed_at: datetime
    last_failed_at: datetime
    example: UUID | None
    type: str | None
    queue: str | None
    error_class: str | None
    last_error: str | None


async def list_many(
    runner: Runner,
    only: Filters = EVERYTHING,
    *,
    after: Place | None = None,
    limit: int = 100,
) -> list[DeadLetter]:
    """Return the newest first, at most ``limit``; go on ``after`` the last one's place."""
    before_at, before_id = after or _END
    rows = await runner.run(
        dead_letter.newest(only.names),
        before_at=before_at,
        before_id=before_id,
        limit=limit,
        **only.given,
    )
    return [DeadLetter(*row) for row in rows]


async def count(runner: Runner, only: Filters = EVERYTHING) -> int:
    """Count them."""
    rows = await runner.run(dead_letter.count(only.names), **only.given)
    return int(rows[0].dead_letters)


async def show(runner: Runner, task_id: UUID, *, owner_id: str | None = None) -> Inspection | None:
    """Return one with its failure history, or None if the task has no dead letter."""
    rows = await runner.run(dead_letter.ONE, task_id=task_id, owner_id=owner_id)
    if not rows:
        return None
    history = await runner.run(dead_letter.HISTORY, task_id=task_id)
    return Inspection(DeadLetter(*rows[0]), tuple(FailedAttempt(*row) for row in history))


async def causes(runner: Runner, only: Filters = EVERYTHING, *, limit: int = 100) -> list[Cause]:
    """Group by fingerprint, the most frequent first."""
    rows = await runner.run(dead_letter.causes(only.names), limit=limit, **only.given)
    return [Cause(*row) for row in rows]


async def redrive_many(
    runner: Runner,
    task_ids: Iterable[UUID],
    *,
    actor: str,
    owner_id: str | None = None,
    delay: float = 0.0,
    rate: float | None = None,
) -> list[UUID]:
    """Make these PENDING again, due ``delay`` seconds from now, with a fresh budget of tries.

    With ``rate`` at most so many a second become due, in the order given. Returns those that were
    redriven: an id without a dead letter, or one that somebody else redrove meanwhile, is left out.
    """
    done: list[UUID] = []
    for start, batch in _batches(await owned(runner, list(dict.fromkeys(task_ids)), owner_id)):
        # Each batch counts from its own, later instant: gaps may be wider, never narrower.
        delays = [delay + (start + n) / rate if rate else delay for n in range(len(batch))]
        rows = await runner.run(dead_letter.REDRIVE, task_ids=batch, delays=delays, actor=actor)
        done += [row.task_id for row in rows]
    return done


async def redrive_all(
    runner: Runner,
    only: Filters,
    *,
    actor: str,
    delay: float = 0.0,
    rate: float | None = None,
    limit: int | None = None,
) -> int:
    """Redrive what failed until now, the oldest first, ``limit`` at most; returns how many."""
    seen = redriven = 0
    async for batch in _oldest_first(runner, only):
        chosen = batch if limit is None else batch[: limit - seen]
        later = delay + seen / rate if rate else delay
        redriven += len(await redrive_many(runner, chosen, actor=actor, delay=later, rate=rate))
        seen += len(chosen)
        if seen == limit:
            break
    return redriven


async def some_until(runner: Runner, only: Filters, until: datetime) -> bool:
    """Tell whether any of those that failed until then is left."""
    rest: dict[str, Any] = {"after_at": _BEGINNING[0], "after_id": _BEGINNING[1], "batch": 1}
    return bool(await runner.run(dead_letter.oldest(only.names), until=until, **rest, **only.given))


async def discard_many(
    runner: Runner, task_ids: Iterable[UUID], *, actor: str, owner_id: str | None = None
) -> list[UUID]:
    """Delete these tasks with diagnosis, history and idempotency key; returns those that were."""
    done: list[UUID] = []
    for _, batch in _batches(await owned(runner, list(dict.fromkeys(task_ids)), owner_id)):
        rows = await runner.run(dead_letter.DISCARD, task_ids=batch, actor=actor)
        done += [row.task_id for row in rows]
    return done


async def discard_all(runner: Runner, only: Filters, *, actor: str) -> int:
    """Discard what failed until now; returns how many."""
    discarded = 0
    async for batch in _oldest_first(runner, only):
        discarded += len(await discard_many(runner, batch, actor=actor))
    return discarded


async def _oldest_first(runner: Runner, only: Filters) -> AsyncGenerator[list[UUID]]:
    until = (await runner.run(outbox.CLOCK))[0].now
    after: tuple[Any, Any] = _BEGINNING
    while rows := await runner.run(
        dead_letter.oldest(only.names),
        after_at=after[0],
        after_id=after[1],
        until=until,
        batch=_BATCH,
        **only.given,
    ):
        after = (rows[-1].failed_at, rows[-1].task_id)
        yield [row.task_id for row in rows]


def _batches(task_ids: list[UUID]) -> Iterable[tuple[int, list[UUID]]]:
    return ((n, task_ids[n : n + _BATCH]) for n in range(0, len(task_ids), _BATCH))
