"""What an effect sends before and after the business statements, and what each answer means.

The settlement is the last statement before the commit, and the fence: it deletes the lease where
task, attempt and worker still match, or the whole transaction is rolled back. A commit that is not
answered is not judged here: settling the attempt finds out whether it took place.
"""

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from taskbell.consumer.errors import CommitUnknown, EffectSeen, InvalidEffect, LeaseLost, RetryLater
from taskbell.consumer.result import storable_result
from taskbell.consumer.stage import Stage
from taskbell.consumer.transaction import Ask, Plan, Run, is_away, is_conflict, is_refusal
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.ids import WorkerId
from taskbell.shared.lifecycle import Settlement
from taskbell.shared.sealing import Kind, TaskSeal
from taskbell.shared.statement import Statement
from taskbell.shared.statements import effect as statements
from taskbell.shared.statements import settlement

_CONFLICT_SECONDS = (0.05, 0.5)
_SHORTEST_IDLE_MS = 100


@dataclass(frozen=True, slots=True)
class Holder:
    """An attempt as its effect knows it, and how its worker is told how far the effect is."""

    task_id: UUID
    attempt: int
    worker_id: WorkerId
    stage: Callable[[], Stage]
    advance: Callable[[Stage, str | None], None]
    """Called with the new stage and, once, the result."""
    remaining: Callable[[], float]
    """Seconds of the lease that are left."""
    seal: TaskSeal | None = None
    """Seals its result, where sealing is on."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A dedup key and what it is unique within."""

    scope: str
    key: str


@dataclass(frozen=True, slots=True)
class Fence:
    """One effect's begin and end, as plans."""

    holder: Holder
    mark: Mark | None
    locking: bool
    """Lock the lease at the start, for isolation levels that could not settle otherwise."""
    elsewhere: bool
    """The transaction is in another database, where the key alone makes the effect once."""

    def begin(self) -> Plan[None]:
        """Open the transaction; raises ``EffectSeen`` if the key was seen, ``LeaseLost``."""
        self._require_none_before()
        self.holder.advance(Stage.LOCKED if self.locking else Stage.OPEN, None)
        try:
            yield Ask.OPEN
            (row,) = yield Run(self._beginning(), self._parameters())
        except BaseException as error:
            yield from self._give_up()
            raise _told(error) from error
        if row.answer == "lost":
            yield from self._give_up(Stage.LOST)
            raise LeaseLost(self.holder.task_id, self.holder.attempt)
        if row.answer == "seen":
            yield from self.end(None)
            raise EffectSeen

    def end(self, result: object) -> Plan[None]:
        """Settle and commit."""
        try:
            yield Ask.FLUSH
            written = storable_result(result)
            if not self.elsewhere:
                yield from self._settle(written)
        except BaseException as error:
            yield from self._give_up()
            raise _told(error) from error
        yield from self._commit()
        self.holder.advance(Stage.ELSEWHERE if self.elsewhere else Stage.SETTLED, written)
        yield Ask.RETURN

    def abandon(self, error: BaseException) -> Plan[None]:
        """Roll back after the business statements failed; raises only what steers the task."""
        yield from self._give_up()
        told = _told(error, ours=False)
        if told is not error:
            raise told from error

    def _require_none_before(self) -> None:
        match self.holder.stage():
            case Stage.NONE:
                return
            case Stage.LOST:
                raise LeaseLost(self.holder.task_id, self.holder.attempt)
            case Stage.OPEN | Stage.LOCKED | Stage.SETTLING:
                raise InvalidEffect("this attempt has an effect that has not ended yet")
            case _:
                raise InvalidEffect("this attempt has had its effect: put all of it into one")

    def _beginning(self) -> Statement:
        if self.elsewhere:
            return statements.MARK
        if self.mark is None:
            return statements.BEGIN_LOCKING if self.locking else statements.BEGIN
        return statements.BEGIN_KEYED_LOCKING if self.locking else statements.BEGIN_KEYED

    def _parameters(self) -> dict[str, object]:
        idle_ms = max(_SHORTEST_IDLE_MS, int(1000 * self.holder.remaining()))
        given: dict[str, object] = {"task_id": self.holder.task_id, "idle_ms": str(idle_ms)}
        if not self.elsewhere:
            given |= {"attempt": self.holder.attempt, "worker_id": self.holder.worker_id}
        if self.mark is not None:
            given |= {"scope": self.mark.scope, "dedup_key": self.mark.key}
        return given

    def _settle(self, result: str | None) -> Plan[None]:
        self.holder.advance(Stage.SETTLING, None)
        rows = yield _completion(self.holder, result)
        if [row for row in rows if getattr(row, "answer", "COMPLETED") == "COMPLETED"]:
            return
        self.holder.advance(Stage.LOST, None)
        raise LeaseLost(self.holder.task_id, self.holder.attempt)

    def _commit(self) -> Plan[None]:
        try:
            yield Ask.COMMIT
        except BaseException as error:
            if is_refusal(error):
                yield from self._give_up()
                raise _told(error) from error
            self.holder.advance(Stage.UNKNOWN, None)
            yield Ask.DISCARD
            if isinstance(error, Exception):
                raise CommitUnknown("the commit of the effect was not answered") from error
            raise

    def _give_up(self, stage: Stage = Stage.NONE) -> Generator[Ask, Any, None]:
        if self.holder.stage() is not Stage.LOST:
            self.holder.advance(stage, None)
        yield Ask.ROLLBACK


def _completion(holder: Holder, result: str | None) -> Run:
    who: dict[str, object] = {"worker_id": holder.worker_id}
    if result is None:
        one = {"task_ids": [holder.task_id], "attempts": [holder.attempt]}
        return Run(settlement.SETTLE_COMPLETED, who | one)
    done = Settlement(holder.task_id, holder.attempt, "completed", result=result)
    if holder.seal is not None:
        sealed = holder.seal.seal(Kind.RESULT, result.encode())
        done = done._replace(result=None, result_sealed=sealed)
    return Run(settlement.SETTLE, who | settlement.columns_of([done]))


def _told(error: BaseException, *, ours: bool = True) -> BaseException:
    """Return what the handler is told of an error; of those of its own only a conflict differs."""
    if is_conflict(error):
        pause = random.uniform(*_CONFLICT_SECONDS)  # noqa: S311 - jitter
        return RetryLater(pause)
    if ours and is_away(error):
        return DatabaseAway(str(error))
    return error
