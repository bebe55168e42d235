"""The lease as its holder sees it, and the claim that takes it."""

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from taskbell.consumer.context import Context, Told
from taskbell.consumer.registry import DEFAULT_LEASE, Registration
from taskbell.shared.array import uuids
from taskbell.shared.database import DedicatedConnection, Rows
from taskbell.shared.floors import Floors
from taskbell.shared.ids import TaskId, WorkerId
from taskbell.shared.limits import LEVELS
from taskbell.shared.statement import Statement
from taskbell.shared.statements import claim, lease

# The share of a lease that must be left when its handler is stopped, and the seconds at least: the
# watch sees it up to a tick late, and the handler needs some time to end.
_MARGIN = 0.1
_LEAST_MARGIN = 0.25


class Apart(NamedTuple):
    """A payload that is not in its row in the clear; one of both is set."""

    sealed: bytes | None
    location: str | None


@dataclass(slots=True, eq=False)
class Lease:
    """The right to run one attempt, and what its handler needs."""

    context: Context
    used: int
    """Tries used, this one included."""
    payload: object = field(repr=False)
    """JSON values; None as long as it is ``apart``."""
    seconds: float
    """How long it lasts from one beat to the next."""
    deadline: float
    """Monotonic; from here on somebody else may hold the task. Renewed by the keeper."""
    told: Told
    """What the handler sees as ``context.lost`` and ``context.cancelled``."""
    announced_for: float | None
    """Seconds from its announcement to its claim; None if nobody announced it."""
    apart: Apart | None = field(default=None, repr=False)
    """What is to be opened or fetched before the handler runs."""
    claimed_at: float = field(default_factory=time.monotonic)

    def remaining(self) -> float:
        """Seconds that are left of it."""
        return min(self.seconds, self.deadline - time.monotonic())

    @property
    def expiring_at(self) -> float:
        """Monotonic; from here on so little is left that its handler must stop."""
        return self.deadline - max(_MARGIN * self.seconds, _LEAST_MARGIN)

    def is_expiring(self) -> bool:
        """Whether its handler must stop."""
        return time.monotonic() >= self.expiring_at

    def age(self) -> float:
        """Seconds since it was claimed."""
        return time.monotonic() - self.claimed_at

    @property
    def task_id(self) -> UUID:
        """The task."""
        return self.context.task_id

    @property
    def attempt(self) -> int:
        """Which attempt at it; with the worker's name the fence."""
        return self.context.attempt


class Claims:
    """Takes leases for one worker, on a connection of its own."""

    def __init__(
        self,
        connection: DedicatedConnection,
        worker_id: WorkerId,
        registrations: Iterable[Registration],
    ) -> None:
        self._connection = connection
        self._worker_id = worker_id
        self._seconds = {each.task_type: each.lease for each in registrations}
        self._lease_by_type = json.dumps(self._seconds)
        self._floors = Floors()

    async def by_ids(self, task_ids: Sequence[TaskId], limit: int) -> list[Lease]:
        """Claim what an announcement named; raises ``DatabaseAway``."""
        return await self._claim(claim.BY_IDS, limit, task_ids=uuids(task_ids))

    async def by_queue(self, queue: str, limit: int) -> list[Lease]:
        """Claim the first due tasks of a queue; raises ``DatabaseAway``."""
        floors = await self._floors.of(queue, self._connection)
        return await self._claim(
            claim.BY_QUEUE, limit, queue=queue, levels=list(LEVELS), floors=floors
        )

    async def unknown(self, known: Sequence[UUID]) -> list[Lease]:
        """Find leases whose claim was committed although its answer was lost.

        Raises ``DatabaseAway``.
        """
        asked = time.monotonic()
        rows = await self._connection.run(
            lease.UNKNOWN, worker_id=self._worker_id, known=list(known)
        )
        return [self._lease(row, asked + row.remaining) for row in rows]

    async def require_writable(self) -> None:
        """Raise ``DatabaseAway`` if nothing can be claimed, though the database is reached."""
        await self._connection.require_writable()

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()

    async def _claim(self, statement: Statement, limit: int, **door: object) -> list[Lease]:
        # The clock starts before the claim is sent: the lease cannot end earlier than we think.
        asked = time.monotonic()
        rows: Rows = await self._connection.run(
            statement,
            limit=limit,
            worker_id=self._worker_id,
            lease_by_type=self._lease_by_type,
            lease=DEFAULT_LEASE,
            **door,
        )
        return [
            self._lease(row, asked + self._seconds.get(row.type, DEFAULT_LEASE)) for row in rows
        ]

    def _lease(self, row: Any, deadline: float) -> Lease:
        told = Told()
        context = Context(
            row.task_id, row.attempt, row.type, row.queue, row.owner_id,
            row.correlation_id, row.traceparent, row.created_at, told,
        )  # fmt: skip
        seconds = self._seconds.get(row.type, DEFAULT_LEASE)
        payload, apart = row.payload, None
        if payload is None:  # or it is the null of JSON
            found = Apart(row.payload_sealed, row.payload_location)
            apart = None if found == (None, None) else found
        return Lease(context, row.used, payload, seconds, deadline, told, row.announced_for, apart)
