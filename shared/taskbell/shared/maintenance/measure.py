"""Measure every queue: depth, age of the oldest due entry, tasks settled a second."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from taskbell.shared.database import DedicatedConnection
from taskbell.shared.events import QueueMeasured
from taskbell.shared.maintenance.steady import Steady
from taskbell.shared.statements import upkeep


@dataclass(frozen=True, slots=True)
class Measure(Steady):
    """The measures admission, dashboards and scalers read from ``queue``."""

    name: ClassVar[str] = "measure"
    interval: float = 5.0

    async def run_once(self, connection: DedicatedConnection) -> Sequence[QueueMeasured]:
        """Measure all queues but those that stay idle, of which that is known already."""
        rows = await connection.run(upkeep.MEASURE, interval=self.interval)
        return [QueueMeasured(row.name, row.depth, row.oldest_age, row.drain_rate) for row in rows]
