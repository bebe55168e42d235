"""A RabbitMQ node started from binaries of this machine, in a private directory on free ports.

It shares nothing with a RabbitMQ of the system nor with one of another run: not the configuration,
not the cookie, not the Erlang distribution's port and not even `epmd`, of which it has its own.
"""

import re
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

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
from services.management import Management

DEBIAN: Final = Path("/usr/lib/rabbitmq")
_USER: Final = "taskbell"
_PATIENCE: Final = 120.0

QUICK_STATISTICS: Final = """\
# What somebody waits for should show quickly; the default is five seconds, for each of them.
collect_statistics_interval = 250
management.sample_retention_policies.global.minute = 1
management.sample_retention_policies.basic.minute = 1
management.sample_retention_policies.detailed.minute = 1
"""
_PLAIN: Final = "listeners.tcp.1 = {host}:{amqp}\n"
_ENCRYPTED: Final = """\
listeners.tcp = none
listeners.ssl.1 = {host}:{amqp}
ssl_options.certfile = {chain}
ssl_options.cacertfile = {chain}
ssl_options.keyfile = {key}
ssl_options.verify = verify_none
"""
_CONFIGURATION: Final = """\
management.tcp.ip = {host}
management.tcp.port = {management}
default_user = {user}
default_pass = {password}
log.console = true
log.file = false
"""


def find_scripts() -> Path | None:
    """The directory with RabbitMQ's own scripts, none if it (or Erlang) is not installed.

    Not Debian's wrappers in /usr/sbin: they insist on root or the user rabbitmq and on
    /var/lib/rabbitmq.
    """
    if shutil.which("erl") is None or shutil.which("epmd") is None:
        return None
    return next(filter(_complete, _candidates()), None)


def _candidates() -> Iterator[Path]:
    yield DEBIAN / "bin"
    on_path = shutil.which("rabbitmq-server")
    if on_path is not None:
        yield Path(on_path).resolve().parent


def _complete(scripts: Path) -> bool:
    # rabbitmq-env lies beside the real scripts only, never beside the wrappers.
    return all((scripts / name).exists() for name in ("rabbitmq-server", "rabbitmq-env"))


def describe(scripts: Path) -> str:
    """Version (by the name of a directory) and place: "RabbitMQ 3.10.8 from /usr/lib/…"."""
    homes = [path.name for path in scripts.parent.glob("lib/rabbitmq_server-*")]
    homes += [path.name for path in scripts.resolve().parents]
    version = re.search(r"rabbitmq_server-([0-9.]+)", " ".join(homes))
    return f"RabbitMQ {version[1] if version else '?'} from {scripts}"


class Node:
    """A RabbitMQ under guard. Ready when constructed; gone after `close()` or with this process."""

    def __init__(self, scripts: Path, certificate: Certificate | None = None) -> None:
        """With a certificate it speaks AMQP over TLS only."""
        self._scripts = scripts
        self._certificate = certificate
        self._directory = make_directory("rabbitmq")
        self._amqp, self._http, self._distribution, self._names = (Port() for _ in range(4))
        self._password = secrets.token_urlsafe(18)
        self._management = Management(self.management_url, patience=2.0)
        with ExitStack() as resources:
            for port in (self._amqp, self._http, self._distribution, self._names):
                resources.callback(port.release)
            resources.callback(shutil.rmtree, self._directory, ignore_errors=True)
            self._configure()
            self._epmd = self._guarded(
                [_path("epmd"), "-port", str(self._names), "-address", LOOPBACK],
            )
            # Closed before the directory is deleted and after the node, which needs it.
            resources.callback(self._epmd.close)
            self._epmd.start()
            self._node = self._guarded([str(scripts / "rabbitmq-server")], self._directory)
            resources.callback(self._node.close)
            self.start()
            self._resources = resources.pop_all()

    @property
    def url(self) -> str:
        scheme = "amqp" if self._certificate is None else "amqps"
        return f"{scheme}://{_USER}:{self._password}@{LOOPBACK}:{self._amqp}/%2F"

    @property
    def management_url(self) -> str:
        return f"http://{_USER}:{self._password}@{LOOPBACK}:{self._http}"

    @property
    def running(self) -> bool:
        return self._node.pid is not None

    def start(self) -> None:
        self._node.start()
        listener = ("health", "checks", "port-listener", str(self._amqp))
        self._node.wait_ready("RabbitMQ", lambda: self._management.answers(*listener), _PATIENCE)

    def kill(self) -> None:
        self._node.end(signal.SIGKILL)

    def wipe(self) -> None:
        if self.running:
            raise ServiceError("a node that runs cannot be wiped: kill it first")
        shutil.rmtree(self._directory / "data")

    def control(self, *command: str) -> None:
        """Runs `rabbitmqctl`, which takes a second or two."""
        said = subprocess.run(
            [str(self._scripts / "rabbitmqctl"), *command],
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE,
            cwd="/",
        )
        if said.returncode != 0:
            raise ServiceError(f"rabbitmqctl {command[0]} failed:\n{said.stdout}{said.stderr}")

    def close(self) -> None:
        self._resources.close()

    def _configure(self) -> None:
        configuration = self._directory / "rabbitmq.conf"
        configuration.touch(mode=0o600)
        configuration.write_text(
            QUICK_STATISTICS
            + self._listener()
            + _CONFIGURATION.format(
                host=LOOPBACK,
                management=self._http,
                user=_USER,
                password=self._password,
            )
        )
        (self._directory / "advanced.config").write_text("[].\n")
        (self._directory / "enabled_plugins").write_text("[rabbitmq_management].\n")
        (self._directory / "conf.d").mkdir()

    def _listener(self) -> str:
        if self._certificate is None:
            return _PLAIN.format(host=LOOPBACK, amqp=self._amqp)
        chain, key = self._certificate.write(self._directory)
        return _ENCRYPTED.format(host=LOOPBACK, amqp=self._amqp, chain=chain, key=key)

    def _environment(self) -> dict[str, str]:
        home = self._directory
        return bare_environment(home) | {
            "RABBITMQ_NODENAME": f"taskbell-{self._amqp}@localhost",
            "RABBITMQ_CONF_ENV_FILE": str(home / "no-rabbitmq-env.conf"),
            "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
            "RABBITMQ_CONFIG_FILES": str(home / "conf.d"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(home / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(home / "data"),
            "RABBITMQ_SCHEMA_DIR": str(home / "data" / "schema"),
            "RABBITMQ_LOG_BASE": str(home / "logs"),
            "RABBITMQ_DIST_PORT": str(self._distribution),
            # Any free port instead of the fixed range that rabbitmqctl would listen in.
            "RABBITMQ_CTL_DIST_PORT_MIN": "0",
            "RABBITMQ_CTL_DIST_PORT_MAX": "0",
            "ERL_EPMD_PORT": str(self._names),
            "ERL_EPMD_ADDRESS": LOOPBACK,
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1} "
                # Schedulers that wait do not spin: the cores are shared with everything else.
                "+sbwt none +sbwtdcpu none +sbwtdio none"
            ),
            # The script then becomes the node instead of waiting for it: one process, one signal.
            "RUNNING_UNDER_SYSTEMD": "true",
        }

    def _guarded(self, argv: list[str], directory: Path | None = None) -> Guarded:
        return Guarded(
            [*as_user(None, "--pdeathsig=KILL"), *argv],
            environment=self._environment(),
            log=self._directory / "log",
            # Nobody will read its data again.
            stop_signal=signal.SIGKILL,
            directory=directory,
        )


def _path(command: str) -> str:
    return shutil.which(command) or command
