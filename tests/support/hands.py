"""A worker's hands without the worker: claim and settle by the statements alone."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import namedtuple_row

from support.waiting import PATIENCE
from taskbell.shared.database import Database, DedicatedConnection, conninfo
from taskbell.shared.lifecycle import Diagnosis, Settlement, Verdict
from taskbell.shared.limits import LEVELS
from taskbell.shared.maintenance.promote import Promote
from taskbell.shared.statement import Statement
from taskbell.shared.statements import claim, settlement

EPOCH = "1970-01-01T00:00:00Z"


ENQUEUE = Statement("""
WITH t AS (
    INSERT INTO taskbell.task (id, type, queue, priority, max_attempts, payload, partition_key,
                               partition_seq)
    SELECT u.id, 'noop', :queue, u.priority, 3, '{}', :key, nextval('taskbell.partition_seq')
    FROM unnest(CAST(:ids AS uuid[]), CAST(:priorities AS smallint[])) AS u(id, priority)
    RETURNING id, queue, priority, scheduled_at, partition_key, partition_seq
)
INSERT INTO taskbell.outbox (task_id, queue, priority, publish_at, parked, partition_key,
                             partition_seq)
SELECT id, queue, priority, scheduled_at, true, partition_key, partition_seq FROM t
RETURNING task_id
""")
"""Tasks of one partition, in order, for a transaction that stays open."""


class Hands:
    """One worker's name and its connection."""

    def __init__(self, url: str, name: str = "w") -> None:
        self.name = name
        self.connection = DedicatedConnection(Database(url), name)

    async def claim(self, limit: int = 10, queue: str = "default") -> list[Any]:
        """The rows of a poll."""
        return await self.connection.run(claim.BY_QUEUE, **claiming(self.name, limit, queue))

    async def claim_ids(self, task_ids: Iterable[UUID], limit: int = 10) -> list[Any]:
        """The rows of a claim from an announcement."""
        return await self.connection.run(
            claim.BY_IDS, task_ids=list(task_ids), limit=limit, worker_id=self.name,
            lease_by_type="{}", lease=30.0,
        )  # fmt: skip

    async def settle(self, task_id: UUID, attempt: int, verdict: Verdict, **rest: Any) -> str:
        """The answer to one settlement."""
        (row,) = await self.connection.run(
            settlement.SETTLE, **settling(self.name, task_id, attempt, verdict, **rest)
        )
        return str(row.answer)

    async def complete(self, leases: Iterable[Any]) -> list[UUID]:
        """Complete what was claimed, by the hot path."""
        held = list(leases)
        rows = await self.connection.run(
            settlement.SETTLE_COMPLETED, worker_id=self.name,
            task_ids=[lease.task_id for lease in held], attempts=[lease.attempt for lease in held],
        )  # fmt: skip
        return [row.task_id for row in rows]

    async def promote(self) -> int:
        """Make heads for the partitions that have none."""
        done = await Promote().run_once(self.connection)
        return done.heads if done else 0

    async def fail(self, task_id: UUID, *, error: str = "bad", fingerprint: str = "f") -> None:
        """Promote, claim the task and let it fail for good."""
        await self.promote()
        (lease,) = await self.claim_ids([task_id])
        answer = await self.settle(
            task_id, lease.attempt, "fail", error=error, fingerprint=fingerprint
        )
        assert answer == "FAILED"


@asynccontextmanager
async def hands(url: str, name: str = "w") -> AsyncGenerator[Hands]:
    """A worker's hands; the connection is closed at the end."""
    ours = Hands(url, name)
    try:
        yield ours
    finally:
        await ours.connection.close()


def claiming(worker: str, limit: int = 10, queue: str = "default") -> dict[str, object]:
    """The parameters of a poll."""
    return {
        "worker_id": worker, "lease_by_type": "{}", "lease": 30.0, "queue": queue,
        "levels": list(LEVELS), "floors": [EPOCH] * len(LEVELS), "limit": limit,
    }  # fmt: skip


def settling(
    worker: str, task_id: UUID, attempt: int, verdict: Verdict, *,
    delay: float = 0.0, error: str = "bad", fingerprint: str = "f",
) -> dict[str, object]:  # fmt: skip
    """The parameters of one settlement."""
    failed = verdict in {"retry", "fail"}
    diagnosis = Diagnosis("ValueError", fingerprint, error, "…") if failed else None
    told = Settlement(task_id, attempt, verdict, delay=delay, diagnosis=diagnosis)
    return {"worker_id": worker, **settlement.columns_of([told])}


class Session:
    """A transaction of its own that stays open until the test ends it."""

    def __init__(self, connection: psycopg.AsyncConnection[Any], observer: Any) -> None:
        self._connection = connection
        self._observer = observer
        self.commit = connection.commit
        self.rollback = connection.rollback

    async def run(self, statement: Statement, **parameters: object) -> list[Any]:
        """The rows of a statement in the open transaction."""
        cursor = await self._connection.execute(statement.for_psycopg, parameters)
        return await cursor.fetchall() if cursor.description else []

    async def waits_for(self, other: "Session") -> bool:
        """Whether it waits at this moment for a lock of the other's transaction."""
        return await self._sees("%s = ANY (pg_blocking_pids(%s))", other._pid, self._pid)

    async def is_waiting(self) -> None:
        """Return once it waits for another transaction's lock."""
        await self._until("pg_blocking_pids(%s) <> '{}'")

    async def blocks_somebody(self) -> None:
        """Return once another waits for a lock of this transaction."""
        await self._until(
            "EXISTS (SELECT FROM pg_stat_activity a WHERE a.wait_event_type = 'Lock' "
            "AND %s = ANY (pg_blocking_pids(a.pid)))"
        )

    @property
    def _pid(self) -> int:
        return self._connection.info.backend_pid

    async def _until(self, condition: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while not await self._sees(condition, self._pid):
                pass

    async def _sees(self, condition: str, *pids: int) -> bool:
        cursor = await self._observer.execute(f"SELECT {condition}".encode(), pids)
        return bool((await cursor.fetchone())[0])


@asynccontextmanager
async def session(url: str) -> AsyncGenerator[Session]:
    """A session of its own; what it did not commit is rolled back."""
    async with (
        await psycopg.AsyncConnection.connect(
            conninfo(url), row_factory=namedtuple_row
        ) as connection,
        await psycopg.AsyncConnection.connect(conninfo(url), autocommit=True) as observer,
    ):
        yield Session(connection, observer)
        await connection.rollback()
