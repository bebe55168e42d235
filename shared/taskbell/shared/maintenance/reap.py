"""Take back leases whose holders are gone."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from taskbell.shared.database import DedicatedConnection
from taskbell.shared.events import LeasesReaped
from taskbell.shared.lifecycle import TaskStatus
from taskbell.shared.statements import settlement

_BATCH = 500


@dataclass(frozen=True, slots=True)
class Reap:
    """Expired leases, re-checked under lock, back to ``outbox`` or to ``dead_letter``.

    Looks at leases alone: it needs no handler, no worker row and no name.
    """

    name: ClassVar[str] = "reap"
    interval: float = 0.3

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
