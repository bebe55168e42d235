"""Connections that keep what was run on them, to tell two requests apart by what they asked."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from psycopg import AsyncConnection

from taskbell.shared.connections import Connections
from taskbell.shared.database import Rows
from taskbell.shared.statement import Statement


class Ran(NamedTuple):
    """A statement and its parameters; None where a connection was taken for something else."""

    statement: Statement | None
    parameters: dict[str, object]


class Recorded(Connections):
    """``ran`` is what was run since it was last emptied."""

    ran: list[Ran]

    @classmethod
    def of(cls, connections: Connections) -> "Recorded":
        """The same number of connections to the same database."""
        recorded = cls(connections.database, "recorded", 4)
        recorded.ran = []
        return recorded

    async def run(self, statement: Statement, **parameters: object) -> Rows:
        """Note it, and run it."""
        self.ran.append(Ran(statement, parameters))
        return await super().run(statement, **parameters)

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[AsyncConnection[Any]]:
        """Note it, and hold one."""
        self.ran.append(Ran(None, {}))
        async with super().one() as connection:
            yield connection
