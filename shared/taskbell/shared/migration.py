"""Brings a database to the schema this code needs, and tells whether it is there.

The Alembic environment is driven from here, so that a container, a DBA and a test all migrate by
the same path. Needs the extra `cli`.
"""

import random
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, Final

from alembic import command
from alembic.config import Config
from psycopg import connect
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Connection, NullPool, create_engine, text
from sqlalchemy.exc import DBAPIError

from taskbell.shared.address import conninfo, reason, where
from taskbell.shared.migrations import SCHEMA, VERSION_TABLE
from taskbell.shared.migrations.script import statements
from taskbell.shared.schema import SchemaState, compare

__all__ = [
    "LockedOutError",
    "MigrationError",
    "check",
    "effect_table_sql",
    "install_effects",
    "sql",
    "upgrade",
]

ENVIRONMENT: Final = Path(__file__).parent / "migrations"
VERSIONS: Final = (ENVIRONMENT / "versions",)
CONNECT_TIMEOUT: Final = 10
# lock_not_available and deadlock_detected: somebody else was in the way, nothing is wrong.
LOCKED_OUT: Final = frozenset({"55P03", "40P01"})
# Long enough for those who queued behind our lock request to get through before the next one.
PAUSE: Final = (0.5, 2.0)
# Alembic keeps the running environment in module attributes: one thread at a time may use it.
_ALEMBIC: Final = threading.Lock()


class MigrationError(Exception):
    """The schema could not be read or changed; one sentence for an operator, never a password."""


class LockedOutError(MigrationError):
    """Other transactions held locks the migration needed; trying again later is safe."""


def upgrade(url: str, *, patience: float = 120.0) -> None:
    """Bring the database to this code's revision, in one transaction; a no-op when it is there.

    Safe to run by any number of processes at once, also through PgBouncer in transaction mode.
    Whenever a lock cannot be had within 2 s everything is rolled back, the others pass, and it is
    tried again, for `patience` seconds; then `LockedOutError` is raised. A database that is ahead
    is left alone. Raises `MigrationError` when the database cannot be reached or refuses.
    """
    address = _address(url)
    deadline = time.monotonic() + patience
    while True:
        try:
            _try_upgrade(address)
        except LockedOutError:
            pause = random.uniform(*PAUSE)  # noqa: S311 - jitter, not a secret
            if time.monotonic() + pause > deadline:
                raise
            time.sleep(pause)
        else:
            return


def sql() -> str:
    """Give the whole script for psql on an empty database, transaction and version row included."""
    script = StringIO()
    with _ALEMBIC:
        command.upgrade(_config(output_buffer=script), "head", sql=True)
    return script.getvalue()


def effect_table_sql() -> str:
    """Give the script for a business database that is to hold dedup keys; may run repeatedly."""
    return "".join(f"{each};\n" for each in _effect_statements())


def install_effects(url: str) -> None:
    """Make the table of dedup keys alone, in a business database; a no-op when it is there.

    Not for taskbell's own database, whose migrations bring it. Raises `MigrationError`.
    """
    with _transaction(_address(url)) as connection:
        for statement in _effect_statements():
            connection.execute(text(statement))


def _effect_statements() -> list[str]:
    made = [each for each in statements("0001_record.sql") if f"{SCHEMA}.effect" in each]
    lock = f"SELECT pg_advisory_xact_lock(hashtextextended('{SCHEMA}.effect', 0))"
    schema = f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"
    return [lock, schema, *made]


def check(url: str) -> SchemaState:
    """Compare the database's revision with this code's; changes nothing, waits for no migration.

    Raises `MigrationError` when the database cannot be reached or refuses to tell.
    """
    with _transaction(_address(url)) as connection:
        return compare(_revision(connection))


def _try_upgrade(address: str) -> None:
    with _transaction(address) as connection:
        if compare(_revision(connection)).ready:
            return
        with _ALEMBIC:
            # The environment looks at the revision again once it has the advisory lock.
            command.upgrade(_config(connection=connection), "head")


def _revision(connection: Connection) -> str | None:
    table = f"{SCHEMA}.{VERSION_TABLE}"
    if connection.scalar(text("SELECT to_regclass(:name) IS NULL"), {"name": table}):
        return None
    found = connection.scalar(text(f"SELECT version_num FROM {table}"))
    return None if found is None else str(found)


def _config(connection: Connection | None = None, output_buffer: StringIO | None = None) -> Config:
    config = Config(output_buffer=output_buffer, attributes={"connection": connection})
    for name, value in {
        "script_location": str(ENVIRONMENT),
        "path_separator": "newline",
        "version_locations": "\n".join(map(str, VERSIONS)),
    }.items():
        config.set_main_option(name, value.replace("%", "%%"))
    return config


def _address(url: str) -> str:
    try:
        return conninfo(url)
    except ValueError as error:
        raise MigrationError(f"the database URL is wrong: {error}") from None


@contextmanager
def _transaction(address: str) -> Generator[Connection]:
    """Open a connection of its own and one transaction on it; translate what the driver raises."""
    settings: dict[str, Any] = {
        # PgBouncer in transaction mode may give the next statement to another server connection.
        "prepare_threshold": None,
        "connect_timeout": CONNECT_TIMEOUT,
        "fallback_application_name": "taskbell migrate",
    }
    for given in conninfo_to_dict(address):
        settings.pop(given, None)
    # By libpq's reading of the URL, like every other connection: SQLAlchemy's differs in places.
    engine = create_engine(
        "postgresql+psycopg://",
        creator=partial(connect, address, **settings),
        poolclass=NullPool,
        isolation_level="READ COMMITTED",
    )
    try:
        with engine.begin() as connection:
            yield connection
    except DBAPIError as error:
        raise _sentence(error, address) from error
    finally:
        engine.dispose()


def _sentence(error: DBAPIError, address: str) -> MigrationError:
    kind = LockedOutError if getattr(error.orig, "sqlstate", None) in LOCKED_OUT else MigrationError
    answered = reason(error.orig or error, address)
    return kind(f"the database at {where(address)} answered: {answered}")
