"""Take back leases whose holders are gone."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from taskbell.shared.database import DedicatedConnection
from taskbell.shared.events import LeasesReaped
from taskbell.shared.lifecycle import TaskStatus
from taskbell.shared.limits import LEASE_SECONDS
from taskbell.shared.statements import lease, settlement

_BATCH = 500
# A lease that a look did not find cannot run out sooner than the shortest of all leases does, and
# of those it found it knows when: more looks would find nothing.
_SHORTEST_LEASE = LEASE_SECONDS[0]
# An expired lease that somebody has locked is looked at again.
_LEAST_PAUSE = 0.2


@dataclass(frozen=True, slots=True)
class Reap:
    """Expired leases, re-checked under lock, back to ``outbox`` or to ``dead_letter``.

    Looks at leases alone: it needs no handler, no worker row and no name.
    """

    name: ClassVar[str] = "reap"
    interval: float = _SHORTEST_LEASE

    async def run_once(self, connection: DedicatedConnection) -> LeasesReaped | None:
        """Reap one batch; returns what became of it, if there was any."""
        rows = await connection.run(settlement.REAP, batch=_BATCH)
        if not rows:
            return None
        became = Counter(row.status for row in rows)
        return LeasesReaped(
            retried=became[TaskStatus.RETRYING],
            dead=became[TaskStatus.FAILED],
            cancelled=became[TaskStatus.CANCELLED],
        )

    async def pause(self, connection: DedicatedConnection) -> float:
        """Seconds until the next lease may expire."""
        (found,) = await connection.run(lease.NEXT_EXPIRY)
        if found.seconds is None:
            return self.interval
        return min(self.interval, max(_LEAST_PAUSE, float(found.seconds)))
