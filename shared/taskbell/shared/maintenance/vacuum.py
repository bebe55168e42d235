"""Vacuum the hot tables while there is work: the server's autovacuum naps a minute at a time."""

from typing import ClassVar

from taskbell.shared.clock import loop_time
from taskbell.shared.database import DedicatedConnection
from taskbell.shared.events import TablesVacuumed
from taskbell.shared.maintenance.steady import Steady
from taskbell.shared.statements import upkeep

_WORTHWHILE = 1000


def worthwhile(changes: int, before: int) -> bool:
    """Whether enough rows changed since the statistics said ``before``."""
    # After a reset the statistics count from zero again.
    return (changes if changes < before else changes - before) >= _WORTHWHILE


class Vacuum(Steady):
    """``outbox`` and ``lease``, once enough rows changed.

    A role that does not own the tables gets a warning from Postgres, and autovacuum remains.
    """

    name: ClassVar[str] = "vacuum"
    interval: float = 10.0

    def __init__(self) -> None:
        self._changes = 0

    async def run_once(self, connection: DedicatedConnection) -> TablesVacuumed | None:
        """Vacuum if it is worthwhile; returns how long it took."""
        changes = int((await connection.run(upkeep.HOT_TABLES_CHURN))[0].changes)
        if not worthwhile(changes, self._changes):
            return None
        self._changes = changes
        started = loop_time()
        await connection.vacuum(upkeep.VACUUM)
        return TablesVacuumed(loop_time() - started)
