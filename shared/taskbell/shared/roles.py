"""Gives each role of the database what its statements need, and nothing else."""

from typing import Final

from taskbell.shared.database import DedicatedConnection
from taskbell.shared.statements import grant

__all__ = ["PREFIX", "apply", "sql"]

PREFIX: Final = "taskbell"
"""The roles are called ``taskbell_producer``, ``taskbell_relay`` and so on unless it is another."""


def sql(prefix: str = PREFIX) -> str:
    """Give the whole script for psql, transaction included; raises ``ValueError``."""
    return "".join(f"{each};\n" for each in ("BEGIN", *grant.script(prefix), "COMMIT"))


async def apply(connection: DedicatedConnection, prefix: str = PREFIX) -> list[str]:
    """Make the roles and grant, in one transaction; returns the roles' names.

    Raises ``ValueError``, ``DatabaseAway`` and what psycopg raises when the database refuses.
    """
    statements = grant.script(prefix)
    opened = await connection.opened()
    async with connection.guarded(opened), opened.transaction():
        for each in statements:
            await opened.execute(each.encode())
    return list(grant.names(prefix).values())
