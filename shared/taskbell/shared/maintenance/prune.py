"""Delete what is final and old, in small batches."""

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from taskbell.shared.database import DedicatedConnection
from taskbell.shared.events import TasksPruned
from taskbell.shared.statements import upkeep

_BATCH = 1000
_BATCHES = 20
_DAY = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Prune:
    """Completed and cancelled tasks ``keep_days`` after they ended, with keys and failure history.

    Effects' dedup keys go no earlier than their tasks.
    """

    keep_days: float
    name: ClassVar[str] = "prune"
    interval: float = 60.0

    async def run_once(self, connection: DedicatedConnection) -> TasksPruned | None:
        """Prune at most 20 batches; returns how much went, if any."""
        keep = self.keep_days * _DAY
        tasks = await self._prune_tasks(connection, keep)
        rows = await connection.run(upkeep.PRUNE_EFFECTS, keep=keep, batch=_BATCH)
        effects = int(rows[0].pruned)
        return TasksPruned(tasks, effects) if tasks or effects else None

    async def _prune_tasks(self, connection: DedicatedConnection, keep: float) -> int:
        pruned, after = 0, UUID(int=0)
        for _ in range(_BATCHES):
            row = (await connection.run(upkeep.PRUNE_TASKS, after=after, keep=keep, batch=_BATCH))[
                0
            ]
            pruned += int(row.pruned)
            if row.pruned < _BATCH:
                break
            after = row.last_id
        return pruned
