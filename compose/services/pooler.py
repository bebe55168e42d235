"""PgBouncer in transaction mode in front of a Postgres, as many services have it."""

import os
import shutil
import signal
from pathlib import Path
from typing import Final, Self

from sqlalchemy.engine import make_url

from services.clusters import accepts, server_user
from services.guarded import (
    LOOPBACK,
    Guarded,
    Port,
    ServiceError,
    as_user,
    bare_environment,
    make_directory,
)

_PATIENCE: Final = 60.0
_CONFIGURATION: Final = """\
[databases]
* = host={host} port={port}
[pgbouncer]
listen_addr = {loopback}
listen_port = {listen_port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {users}
pool_mode = transaction
default_pool_size = 20
max_client_conn = 500
server_lifetime = 60
"""


class Pooler:
    """A PgBouncer under guard; ready when constructed, gone after `close()` or with us."""

    def __init__(self, postgres_url: str) -> None:
        """`postgres_url` names the server and the user who logs in there."""
        program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if program is None:
            raise ServiceError("PgBouncer was not found: apt-get install pgbouncer")
        self._behind = make_url(postgres_url)
        user = server_user() if os.geteuid() == 0 else None
        directory = make_directory("pgbouncer", user)
        self._port = Port()
        configuration = self._configure(directory, user)
        self._server = Guarded(
            [*as_user(user, "--pdeathsig=INT"), program, str(configuration)],
            environment=bare_environment(directory),
            log=directory / "log",
            stop_signal=signal.SIGINT,
            directory=directory,
        )
        try:
            self._server.start()
            self._server.wait_ready(
                "PgBouncer", lambda: accepts(self.url_of("postgres")), _PATIENCE
            )
        except BaseException:
            self.close()
            raise

    def _configure(self, directory: Path, user: str | None) -> Path:
        users, configuration = directory / "users", directory / "pgbouncer.ini"
        written = {
            users: f'"{self._behind.username}" "{self._behind.password or ""}"\n',
            configuration: _CONFIGURATION.format(
                host=self._behind.host,
                port=self._behind.port or 5432,
                loopback=LOOPBACK,
                listen_port=self._port,
                users=users,
            ),
        }
        for path, text in written.items():
            path.touch(mode=0o600)
            path.write_text(text, encoding="utf-8")
            if user is not None:
                shutil.chown(path, user)
        return configuration

    def url_of(self, database: str) -> str:
        """The way to this database through the pooler."""
        way = self._behind.set(host=LOOPBACK, port=self._port.number, database=database)
        return way.render_as_string(hide_password=False)

    def close(self) -> None:
        """Ends it; clients lose their connections."""
        self._server.close()
        self._port.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
