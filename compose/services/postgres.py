"""A Postgres server that somebody runs: its address, and databases made and dropped on it.

How it is run is the business of a `PostgresServer`: binaries of this machine (`clusters.py`), a
container (`containers.py`), or nobody we know (an address from outside).
"""

from typing import Protocol, Self

import psycopg
from psycopg import sql
from sqlalchemy.engine import URL, make_url

from services.guarded import ServiceError


class PostgresServer(Protocol):
    """Something that runs a Postgres for us."""

    def restart_immediately(self) -> None: ...

    def close(self) -> None: ...


class Postgres:
    """A running Postgres. All calls block for milliseconds."""

    def __init__(self, url: str, server: PostgresServer | None = None, origin: str = "") -> None:
        """`url` is `postgresql+psycopg://…` of a database where we may create databases.

        Without `server` it is not ours: `stop()` leaves it alone and it cannot be restarted.
        """
        self._address: URL = make_url(url).set(drivername="postgresql+psycopg")
        self._server = server
        self.origin = origin
        """Where it came from, for people: "Postgres 15 from /usr/lib/postgresql/15/bin"."""

    def __repr__(self) -> str:
        return f"<Postgres {self._address!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The maintenance database, `postgresql+psycopg://…`; holds a password, never print it."""
        return self._address.render_as_string(hide_password=False)

    @property
    def version(self) -> str:
        """As the server says it, such as "15.18"."""
        with self._connect() as connection:
            return str(connection.info.parameter_status("server_version")).split()[0]

    def url_of(self, database: str) -> str:
        return self._address.set(database=database).render_as_string(hide_password=False)

    def create_database(self, name: str, template: str | None = None) -> str:
        """Its URL. A copy of `template`, which nobody may be connected to, takes about 0.1 s."""
        statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        if template is not None:
            # Copying files beats writing every page to the WAL by far where nothing is fsynced.
            statement += sql.SQL(" TEMPLATE {} STRATEGY file_copy").format(sql.Identifier(template))
        with self._connect() as connection:
            connection.execute(statement)
        return self.url_of(name)

    def drop_database(self, name: str) -> None:
        """It is gone, whoever was connected to it; also when it never existed."""
        statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        with self._connect() as connection:
            connection.execute(statement)

    def restart_immediately(self) -> None:
        """Stopped as by a crash (`immediate`) and up again at the same address and directory."""
        if self._server is None:
            raise ServiceError("this Postgres was not started by us, so we do not restart it")
        self._server.restart_immediately()

    def stop(self) -> None:
        """The server has ended and its directory is gone, if we started it. May be repeated."""
        if self._server is not None:
            self._server.close()

    def _connect(self) -> psycopg.Connection:
        address = self._address.set(drivername="postgresql")
        conninfo = address.render_as_string(hide_password=False)
        return psycopg.connect(conninfo, autocommit=True, connect_timeout=10)
