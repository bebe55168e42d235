"""The audit: does the database keep the invariants that everything else rests on?"""

import asyncio
from dataclasses import dataclass
from uuid import UUID

from taskbell.shared.database import DedicatedConnection
from taskbell.shared.statements import audit as statements

_BATCH = 50_000


@dataclass(frozen=True, order=True, slots=True)
class Finding:
    """One task that breaks an invariant, and which."""

    finding: str
    task_id: UUID


async def look(connection: DedicatedConnection) -> list[Finding]:
    """Return what breaks I1 to I4; empty at every instant, whatever goes on meanwhile."""
    findings = [Finding(*row) for row in await connection.run(statements.HOT)]
    after = UUID(int=0)
    while ends := await connection.run(statements.RANGE_END, after=after, batch=_BATCH):
        rows = await connection.run(statements.RECORD, after=after, until=ends[0].until)
        findings += [Finding(*row) for row in rows]
        after = ends[0].until
    return sorted(findings)


async def look_for_neglect(connection: DedicatedConnection, patience: float) -> list[Finding]:
    """Return what maintenance should have cleared and had not, ``patience`` seconds later.

    Waits only if there is something to wait for.
    """
    first = {Finding(*row) for row in await connection.run(statements.LATE)}
    if not first:
        return []
    await asyncio.sleep(patience)
    again = {Finding(*row) for row in await connection.run(statements.LATE)}
    return sorted(first & again)
