"""The operations by the product's own verbs, in transactions that the test ends."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from uuid import UUID

import psycopg

from integration.consumer.held import ended
from integration.matrix.states import ATTEMPT, WORKER, Placed
from support.hands import Session
from taskbell.consumer.ended import Answered
from taskbell.consumer.errors import EffectSeen, LeaseLost
from taskbell.consumer.fence import Fence, Holder, Mark
from taskbell.consumer.leases import Claims
from taskbell.consumer.settling import Settler
from taskbell.consumer.stage import Stage
from taskbell.consumer.transaction import Ask, Command, Run, follow_async
from taskbell.shared.database import Database, DedicatedConnection
from taskbell.shared.dead_letters import redrive_many
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.events import DatabaseLost, Event, StatementFailed
from taskbell.shared.ids import TaskId, WorkerId
from taskbell.shared.lifecycle import Verdict
from taskbell.shared.maintenance.prune import Prune
from taskbell.shared.maintenance.reap import Reap
from taskbell.shared.statement import Statement
from taskbell.shared.statements import lease
from taskbell.shared.tasks import cancel_many

_REPEATABLE_READ: Final = Statement("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
_WRITE: Final = Statement("INSERT INTO public.ledger (entry) VALUES (:entry) RETURNING line")
_HOUR: Final = 3600.0


class Open(DedicatedConnection):
    """A session in the place of a role's connection: nothing is committed, nothing is retried."""

    def __init__(self, session: Session) -> None:
        super().__init__(Database(""), "matrix")
        self._session = session

    async def run(self, statement: Statement, **parameters: object) -> list[Any]:
        """Run a statement in the session's transaction."""
        return await self._session.run(statement, **parameters)


class Operation(ABC):
    """What one session does to the task."""

    def __init__(self, session: Session, who: str) -> None:
        self.session = session
        self.connection = Open(session)
        self.who = WorkerId(who)

    @abstractmethod
    async def do(self, task: Placed) -> str:
        """Do it as far as it goes without a commit; answers in one word or two."""

    async def finish(self, answer: str) -> str:
        """Do what is left before the commit; ``answer`` is what there was before."""
        return answer


class Verb(Operation):
    """An operation that one function does whole."""

    def __init__(self, verb: Callable[[Operation, UUID], Awaitable[str]], *place: Any) -> None:
        super().__init__(*place)
        self._verb = verb

    async def do(self, task: Placed) -> str:
        """Do it."""
        return await self._verb(self, task.task_id)


class Effect(Operation):
    """An effect that writes one business row; it settles at once, or when it is finished."""

    def __init__(self, session: Session, who: str, *, halfway: bool, locking: bool) -> None:
        super().__init__(session, who)
        self._halfway = halfway
        self._locking = locking
        self._stage = Stage.NONE
        self._fence: Fence | None = None

    async def do(self, task: Placed) -> str:
        """Begin, write, and settle unless it stops halfway."""
        holder = Holder(
            task.task_id, ATTEMPT, WorkerId(WORKER), lambda: self._stage, self._advance,
            lambda: _HOUR,
        )  # fmt: skip
        mark = Mark("noop", str(task.task_id))
        fence = Fence(holder, mark, locking=self._locking, elsewhere=False)
        try:
            await follow_async(fence.begin(), self._transaction)
        except EffectSeen:
            return "seen"
        except LeaseLost:
            return "lost"
        await self.session.run(_WRITE, entry=str(task.task_id))
        self._fence = fence
        return "written" if self._halfway else await self.finish("written")

    async def finish(self, answer: str) -> str:
        """Settle."""
        fence, self._fence = self._fence, None
        if fence is None:
            return answer
        try:
            await follow_async(fence.end(None), self._transaction)
        except LeaseLost:
            return "lost"
        return "COMPLETED"

    def _advance(self, stage: Stage, _result: str | None) -> None:
        self._stage = stage

    @property
    def _transaction(self) -> "_Handed":
        return _Handed(self.session, locking=self._locking)


class _Handed:
    """The session as an effect's transaction, which the test commits."""

    def __init__(self, session: Session, *, locking: bool) -> None:
        self.handed = session
        self._locking = locking

    async def do(self, command: Command) -> Any:
        match command:
            case Run(statement, parameters):
                return await self.handed.run(statement, **parameters)
            case Ask.OPEN if self._locking:
                return await self.handed.run(_REPEATABLE_READ)
            case Ask.ROLLBACK:
                return await self.handed.rollback()
            case _:
                return None


async def _claim(given: Operation, task_id: UUID) -> str:
    leases = await Claims(given.connection, given.who, ()).by_ids([TaskId(task_id)], 1)
    return f"attempt {leases[0].attempt}" if leases else "nothing"


async def _poll(given: Operation, _task_id: UUID) -> str:
    leases = await Claims(given.connection, given.who, ()).by_queue("default", 1)
    return f"attempt {leases[0].attempt}" if leases else "nothing"


async def _heartbeat(given: Operation, task_id: UUID) -> str:
    (row,) = await given.connection.run(
        lease.HEARTBEAT, task_ids=[task_id], attempts=[ATTEMPT], leases=[_HOUR], worker_id=WORKER
    )
    return str(row.answer)


def _settle(verdict: Verdict) -> Callable[[Operation, UUID], Awaitable[str]]:
    async def settle(given: Operation, task_id: UUID) -> str:
        answers: list[str] = []

        def note(answered: Sequence[Answered]) -> None:
            answers.extend(each.status or "lost" for each in answered)

        settler = Settler(given.connection, WorkerId(WORKER), _refuse, note)
        settler.add(ended(task_id, verdict))
        running = asyncio.ensure_future(settler.run())
        drained = asyncio.ensure_future(settler.drained())
        await asyncio.wait({running, drained}, return_when=asyncio.FIRST_COMPLETED)
        if not drained.done():
            drained.cancel()
            await running
        running.cancel()
        return answers[0]

    return settle


def _refuse(event: Event) -> None:
    """Stop a settler that would try for ever."""
    if isinstance(event, DatabaseLost | StatementFailed):
        raise psycopg.OperationalError(str(event))


async def _reap(given: Operation, _task_id: UUID) -> str:
    reaped = await Reap().run_once(given.connection)
    return "nothing" if reaped is None else "dead" if reaped.dead else "retried"


async def _cancel(given: Operation, task_id: UUID) -> str:
    return (await cancel_many(given.connection, [task_id], actor="me"))[task_id]


async def _redrive(given: Operation, task_id: UUID) -> str:
    redriven = await redrive_many(given.connection, [task_id], actor="me")
    return "redriven" if redriven else "nothing"


async def _prune(given: Operation, _task_id: UUID) -> str:
    pruned = await Prune(keep_days=1.0).run_once(given.connection)
    return f"{pruned.tasks} task, {pruned.effects} key" if pruned else "nothing"


_VERBS: Final = {
    "claim": _claim,
    "poll": _poll,
    "heartbeat": _heartbeat,
    "settle": _settle("completed"),
    "fail": _settle("retry"),
    "reap": _reap,
    "cancel": _cancel,
    "release": _settle("release"),
    "redrive": _redrive,
    "prune": _prune,
}
_EFFECTS: Final = {
    "effect": {"halfway": False, "locking": False},
    "effect begun": {"halfway": True, "locking": False},
    "effect locked": {"halfway": True, "locking": True},
}


def operation(name: str, session: Session, who: str) -> Operation:
    """Return the operation of this name for a session that is called ``who``."""
    if name in _EFFECTS:
        return Effect(session, who, **_EFFECTS[name])
    return Verb(_VERBS[name], session, who)


async def answered(doing: Awaitable[str], session: Session) -> str:
    """Return its answer; an error of the database is one, too, and no outcome allows it."""
    try:
        async with asyncio.timeout(20):
            return await doing
    except (psycopg.Error, DatabaseAway, TimeoutError) as error:
        await session.rollback()
        return f"{type(error).__name__}: {error}"
