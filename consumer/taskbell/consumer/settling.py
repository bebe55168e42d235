"""Settles attempts in groups: whatever ended while the last group was being written is the next.

A settlement that cannot reach the database is repeated until it is answered, and costs no try: the
repeat after an unknown commit is told that it was committed.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import psycopg

from taskbell.consumer.leases import Lease
from taskbell.shared.database import DedicatedConnection, Rows
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.events import DatabaseLost, Observer, StatementFailed
from taskbell.shared.ids import WorkerId
from taskbell.shared.lifecycle import Diagnosis, Settlement
from taskbell.shared.statement import Statement
from taskbell.shared.statements import settlement as statements

_GROUP = 200
_AGAIN_SECONDS = 0.5
_REFUSED = Diagnosis(
    "taskbell.SettlementRefused",
    "settlement-refused",
    "Postgres refused what the attempt left behind; see the worker's log",
    "",
)


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt that ended, and what is to be written."""

    lease: Lease
    settlement: Settlement


Answers = dict[tuple[UUID, int], str]

Settled = Callable[[Ended, str], None]
"""Called with what each attempt's task became, ``already …``, or ``lost``."""


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
        self._waiting: asyncio.Queue[Ended] = asyncio.Queue()
        self.unsettled = 0
        """Attempts that ended and are not yet written."""

    def add(self, ended: Ended) -> None:
        """Settle this with the next group."""
        self.unsettled += 1
        self._waiting.put_nowait(ended)

    async def drained(self) -> None:
        """Return when nothing waits to be written."""
        await self._waiting.join()

    async def run(self) -> None:
        """Settle until cancelled."""
        while True:
            group = [await self._waiting.get()]
            while len(group) < _GROUP and not self._waiting.empty():
                group.append(self._waiting.get_nowait())
            await self._settle_many(group)
            for _ in group:
                self._waiting.task_done()

    async def _settle_many(self, group: Sequence[Ended]) -> None:
        answers = await self._settle_plain([each for each in group if _is_plain(each.settlement)])
        # A plain completion that was not answered asks the general statement why.
        answers |= await self._settle_any([each for each in group if _fence(each) not in answers])
        self.unsettled -= len(group)
        for each in group:
            self._settled(each, answers.get(_fence(each), "lost"))

    async def _settle_plain(self, group: Sequence[Ended]) -> Answers:
        if not group:
            return {}
        rows = await self._answered(
            statements.SETTLE_COMPLETED,
            task_ids=[each.lease.task_id for each in group],
            attempts=[each.lease.attempt for each in group],
        )
        settled = {row.task_id for row in rows}
        return {_fence(each): "COMPLETED" for each in group if each.lease.task_id in settled}

    async def _settle_any(self, group: Sequence[Ended]) -> Answers:
        if not group:
            return {}
        try:
            rows = await self._answered(statements.SETTLE, **_columns(group))
        except psycopg.Error as error:  # one of them holds what Postgres cannot take
            return await self._settle_apart(group, error)
        return {(row.task_id, row.attempt): row.answer for row in rows}

    async def _settle_apart(self, group: Sequence[Ended], error: psycopg.Error) -> Answers:
        if len(group) > 1:
            middle = len(group) // 2
            first = await self._settle_any(group[:middle])
            return first | await self._settle_any(group[middle:])
        self._observe(StatementFailed("settle", f"{error.sqlstate} {error.diag.message_primary}"))
        (refused,) = group
        if refused.settlement.diagnosis is _REFUSED:
            return {}  # nothing left to leave out: the lease runs out and the reaper decides
        harmless = replace(refused.settlement, verdict="fail", result=None, diagnosis=_REFUSED)
        return await self._settle_any([Ended(refused.lease, harmless)])

    async def _answered(self, statement: Statement, **parameters: object) -> Rows:
        while True:
            try:
                return await self._connection.run(
                    statement, worker_id=self._worker_id, **parameters
                )
            except DatabaseAway as error:
                self._observe(DatabaseLost("settle", str(error)))
                await asyncio.sleep(random.uniform(0.5, 1.5) * _AGAIN_SECONDS)  # noqa: S311 - jitter


def _fence(ended: Ended) -> tuple[UUID, int]:
    return ended.lease.task_id, ended.lease.attempt


def _is_plain(settlement: Settlement) -> bool:
    return settlement.verdict == "completed" and settlement.result is None


def _columns(group: Sequence[Ended]) -> dict[str, object]:
    settlements = [each.settlement for each in group]
    diagnoses = [each.diagnosis for each in settlements]
    return {
        "task_ids": [each.task_id for each in settlements],
        "attempts": [each.attempt for each in settlements],
        "outcomes": [each.verdict for each in settlements],
        "delays": [float(each.delay) for each in settlements],
        "results": [each.result for each in settlements],
        "error_classes": [each.error_class if each else None for each in diagnoses],
        "fingerprints": [each.fingerprint if each else None for each in diagnoses],
        "errors": [each.error if each else None for each in diagnoses],
        "tracebacks": [each.traceback if each else None for each in diagnoses],
    }
