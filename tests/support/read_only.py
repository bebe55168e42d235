"""A database that takes no writes for a while."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import sql

from support.workers import rows
from taskbell.shared.database import DedicatedConnection, conninfo

_END = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE application_name LIKE 'taskbell %%' AND datname = current_database()
"""


@contextmanager
def read_only(url: str) -> Generator[None]:
    """New sessions of this database take no writes meanwhile."""
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        database = sql.Identifier(connection.info.dbname)
        setting = sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on")
        connection.execute(setting.format(database))
        try:
            yield
        finally:
            connection.execute("SET default_transaction_read_only = off")
            reset = sql.SQL("ALTER DATABASE {} RESET default_transaction_read_only")
            connection.execute(reset.format(database))


class Looks(list[str]):
    """Who looked whether the database takes writes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self._more = asyncio.Event()
        look = DedicatedConnection.require_writable

        async def seen(connection: DedicatedConnection) -> None:
            self.append(connection.purpose)
            self._more.set()
            await look(connection)

        monkeypatch.setattr(DedicatedConnection, "require_writable", seen)

    async def by(self, purpose: str, count: int) -> None:
        """Return once this purpose has looked so often."""
        while self.count(purpose) < count:
            self._more.clear()
            await self._more.wait()


def end_sessions(url: str) -> None:
    """End every session that taskbell has there."""
    rows(url, _END)
