"""Settles attempts in groups: whatever ended while the last group was being written is the next.

A settlement that cannot reach the database is repeated until it is answered, and costs no try: the
repeat after an unknown commit is told that it was committed. Groups shrink while the database does
not take them, and what it refused goes to the end of the line: no row holds up the others.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from uuid import UUID

import psycopg

from taskbell.consumer.ended import Answered, Ended, fence_of, is_plain, status_of
from taskbell.shared.array import numbers, uuids
from taskbell.shared.database import DedicatedConnection
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.events import Observer, StatementFailed
from taskbell.shared.ids import WorkerId
from taskbell.shared.lifecycle import Diagnosis
from taskbell.shared.outage import Outage, without_values
from taskbell.shared.points import AFTER_SETTLE, BEFORE_SETTLE
from taskbell.shared.statements import lease, queue
from taskbell.shared.statements import settlement as statements

_GROUP = 200
_AGAIN_SECONDS = 0.5
_REFUSED = Diagnosis(
    "taskbell.SettlementRefused",
    "settlement-refused",
    "Postgres refused what the attempt left behind; see the worker's log",
    "",
)
# SQLSTATE classes that blame the row: data, integrity, limits, triggers; None: it was never sent.
_ROW_IS_TO_BLAME = {None, "22", "23", "54", "P0"}


Answers = dict[tuple[UUID, int], str]

Settled = Callable[[Sequence[Answered]], None]


class Settler:
    """Writes settlements for one worker, on a connection of its own."""

    def __init__(
        self,
        connection: DedicatedConnection,
        worker_id: WorkerId,
        observe: Observer,
        settled: Settled,
    ) -> None:
        self._connection = connection
        self._worker_id = worker_id
        self._observe = observe
        self._settled = settled
        self._waiting: deque[Ended] = deque()
        self._group: list[Ended] = []
        self._size = _GROUP
        self._some = asyncio.Event()
        self._none = asyncio.Event()
        self._none.set()
        self._outage = Outage("settle", observe)

    @property
    def unsettled(self) -> int:
        """Attempts that ended and are not yet written."""
        return len(self._waiting) + len(self._group)

    def waiting(self) -> set[UUID]:
        """The tasks whose settlement is not yet answered."""
        return {each.lease.task_id for each in (*self._waiting, *self._group)}

    def add(self, ended: Ended) -> None:
        """Settle this with the next group."""
        self._waiting.append(ended)
        self._some.set()
        self._none.clear()

    async def drained(self) -> None:
        """Return when nothing waits to be written."""
        await self._none.wait()

    async def run(self) -> None:
        """Settle until cancelled."""
        while True:
            await self._some.wait()
            size = min(self._size, len(self._waiting))
            self._group = [self._waiting.popleft() for _ in range(size)]
            self._observe(BEFORE_SETTLE)
            try:
                answers = await self._settle_many(self._group)
            except (DatabaseAway, psycopg.Error) as error:
                await self._put_off(error)
            else:
                self._observe(AFTER_SETTLE)
                found = [answers.get(fence_of(each), "lost") for each in self._group]
                self._answered(found, await self._current(self._group, found))

    async def _put_off(self, error: DatabaseAway | psycopg.Error) -> None:
        self._outage.lost(error)
        self._size = max(1, len(self._group) // 2)
        self._waiting += self._group
        self._group = []
        await asyncio.sleep(random.uniform(0.5, 1.5) * _AGAIN_SECONDS)  # noqa: S311 - jitter

    def _answered(self, answers: Sequence[str], current: dict[UUID, int]) -> None:
        group, self._group = self._group, []
        if any(each.noticed_by == "settlement" for each in group):  # else nothing was sent
            self._outage.found()
            self._size = min(_GROUP, 2 * self._size)
        if not self._waiting:
            self._some.clear()
            self._none.set()
        self._settled(
            [
                Answered(
                    each,
                    status_of(each.settlement, answer),
                    current.get(each.lease.task_id) if current else None,
                )
                for each, answer in zip(group, answers, strict=True)
            ]
        )

    async def _current(self, group: Sequence[Ended], answers: Sequence[str]) -> dict[UUID, int]:
        """Ask which attempt the lost tasks are at; for people, so no answer is an answer."""
        if "lost" not in answers:
            return {}
        asked = zip(group, answers, strict=True)
        lost = [each.lease.task_id for each, answer in asked if answer == "lost"]
        try:
            rows = await self._connection.run(lease.CURRENT, task_ids=lost)
        except (DatabaseAway, psycopg.Error):
            return {}
        return {row.task_id: row.attempt for row in rows}

    async def _settle_many(self, group: Sequence[Ended]) -> Answers:
        group = [each for each in group if each.noticed_by == "settlement"]
        answers = await self._settle_plain([each for each in group if is_plain(each.settlement)])
        if len(answers) == len(group):  # as nearly always
            return answers
        for each in group:
            if each.settlement.hold_queue:
                answers |= await self._settle_holding(each)
        # A plain completion that was not answered asks the general statement why.
        answers |= await self._settle_any([e for e in group if fence_of(e) not in answers])
        # One that waited for a lease to be deleted read the task as it was before: ask again.
        lost = [each for each in group if answers.get(fence_of(each)) == "lost"]
        return answers | await self._settle_any(lost)

    async def _settle_holding(self, each: Ended) -> Answers:
        """Settle one and hold its queue, in one transaction; answers nothing if it was lost."""
        one = each.settlement
        fence: dict[str, object] = {
            "task_id": one.task_id,
            "attempt": one.attempt,
            "worker_id": self._worker_id,
        }
        settling = (
            statements.SETTLE,
            {"worker_id": self._worker_id, **statements.columns_of([one])},
        )
        holding = (queue.HOLD, {**fence, "delay": one.delay})
        rows = await self._connection.run_in_one((holding, settling))
        return {(row.task_id, row.attempt): row.answer for row in rows}

    async def _settle_plain(self, group: Sequence[Ended]) -> Answers:
        if not group:
            return {}
        try:
            rows = await self._connection.run(
                statements.SETTLE_COMPLETED,
                worker_id=self._worker_id,
                task_ids=uuids(each.settlement.task_id for each in group),
                attempts=numbers(each.settlement.attempt for each in group),
            )
        except psycopg.Error:  # the general statement finds out which of them
            return {}
        return {(row.task_id, row.attempt): "COMPLETED" for row in rows}

    async def _settle_any(self, group: Sequence[Ended]) -> Answers:
        if not group:
            return {}
        try:
            rows = await self._connection.run(
                statements.SETTLE,
                worker_id=self._worker_id,
                **statements.columns_of([each.settlement for each in group]),
            )
        except psycopg.Error as error:
            if _blames_a_row(error):
                return await self._settle_apart(group, error)
            raise
        return {(row.task_id, row.attempt): row.answer for row in rows}

    async def _settle_apart(self, group: Sequence[Ended], error: psycopg.Error) -> Answers:
        if len(group) > 1:
            middle = len(group) // 2
            first = await self._settle_any(group[:middle])
            return first | await self._settle_any(group[middle:])
        self._observe(StatementFailed("settle", without_values(error)))
        (refused,) = group
        if refused.settlement.diagnosis is _REFUSED:
            return {}  # nothing left to leave out: the lease runs out and the reaper decides
        harmless = refused.settlement._replace(
            verdict="fail", result=None, result_sealed=None, result_location=None,
            diagnosis=_REFUSED,
        )  # fmt: skip
        return await self._settle_any([Ended(refused.lease, harmless)])

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()


def _blames_a_row(error: psycopg.Error) -> bool:
    return (error.sqlstate[:2] if error.sqlstate else None) in _ROW_IS_TO_BLAME
