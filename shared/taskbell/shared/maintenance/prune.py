"""Delete what is final and old, in small batches."""

from typing import ClassVar
from uuid import UUID

from taskbell.shared.database import DedicatedConnection
from taskbell.shared.events import TasksPruned
from taskbell.shared.statements import upkeep

_BATCH = 1000
_BATCHES = 20
_DAY = 24 * 3600.0
_BEGINNING = UUID(int=0)


class Prune:
    """Completed and cancelled tasks ``keep_days`` after they ended, with keys and failure history.

    A run looks at 20 batches of tasks and the next goes on from there, at last from the beginning
    again. Effects' dedup keys go no earlier than their tasks. Listeners that died go an hour later,
    and queues that are empty and for which nothing is set.
    """

    name: ClassVar[str] = "prune"
    interval: float = 60.0

    def __init__(self, keep_days: float) -> None:
        self._keep = keep_days * _DAY
        self._after = _BEGINNING
        self._behind = False

    async def run_once(self, connection: DedicatedConnection) -> TasksPruned | None:
        """Prune a bounded number; returns how much went, if any."""
        tasks = await self._prune_tasks(connection)
        rows = await connection.run(upkeep.PRUNE_EFFECTS, keep=self._keep, batch=_BATCH)
        effects = int(rows[0].pruned)
        await connection.run(upkeep.FORGET_LISTENERS)
        queues = await connection.run(upkeep.FORGET_QUEUES, batch=_BATCH)
        more = tasks > 0 and self._after != _BEGINNING
        self._behind = more or _BATCH in (effects, len(queues))
        return TasksPruned(tasks, effects) if tasks or effects else None

    async def pause(self, connection: DedicatedConnection) -> float:
        """A minute; none while there is more to delete: then the cost alone sets the pace."""
        del connection
        return 0.0 if self._behind else self.interval

    async def _prune_tasks(self, connection: DedicatedConnection) -> int:
        pruned = 0
        for _ in range(_BATCHES):
            (row,) = await connection.run(
                upkeep.PRUNE_TASKS, after=self._after, keep=self._keep, batch=_BATCH
            )
            pruned += int(row.pruned)
            if row.seen < _BATCH:
                self._after = _BEGINNING
                break
            self._after = row.last_id
        return pruned
