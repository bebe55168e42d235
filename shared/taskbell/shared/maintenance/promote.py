"""Make heads for partitions that have none."""

from dataclasses import dataclass
from typing import ClassVar

from taskbell.shared.database import DedicatedConnection
from taskbell.shared.events import PartitionsPromoted
from taskbell.shared.maintenance.steady import Steady
from taskbell.shared.statement import Statement
from taskbell.shared.statements import partition

_BATCH = 1000
# Sequence numbers are drawn before their transactions commit: look back this far for late ones.
_SLACK = 10_000


async def _promote(
    connection: DedicatedConnection, statement: Statement, parameters: dict[str, object]
) -> int:
    rows = await connection.run_in_one(((partition.LOCK, {}), (statement, parameters)))
    return len(rows)


@dataclass(frozen=True, slots=True)
class Promote(Steady):
    """All keys: finds whatever a race, or a promoter that died, left parked."""

    name: ClassVar[str] = "promote"
    interval: float = 1.0

    async def run_once(self, connection: DedicatedConnection) -> PartitionsPromoted | None:
        """Promote one batch of heads; returns how many, if any."""
        heads = await _promote(connection, partition.PROMOTE, {"batch": _BATCH})
        return PartitionsPromoted(heads) if heads else None


class Promoter:
    """The quick look before every pass, at keys that were enqueued since the one before."""

    def __init__(self) -> None:
        self._newest = 0

    async def run_once(self, connection: DedicatedConnection) -> PartitionsPromoted | None:
        """Promote heads of newly used keys; one cheap statement when there are none."""
        newest = (await connection.run(partition.NEWEST))[0].newest
        if newest <= self._newest:
            return None
        since = max(0, self._newest - _SLACK)
        heads = await _promote(connection, partition.PROMOTE_NEW, {"since": since, "batch": _BATCH})
        if heads < _BATCH:
            self._newest = newest
        return PartitionsPromoted(heads) if heads else None
