"""Postgres and RabbitMQ in containers, for machines with a Docker engine and no server binaries.

A container that a killed process left behind is removed by testcontainers' own reaper (Ryuk). Host
ports are chosen by us, so that a server that was stopped comes back at the same address.
"""

import secrets
import shutil
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from typing import Final

from sqlalchemy.engine import URL
from testcontainers.core.container import DockerContainer

from services.clusters import accepts, options
from services.guarded import Port, ServiceError, wait_ready
from services.management import Management
from services.nodes import QUICK_STATISTICS

POSTGRES_IMAGE: Final = "postgres:17"
RABBITMQ_IMAGE: Final = "rabbitmq:4-management"
_USER: Final = "taskbell"
_SQL: Final = 5432
_AMQP: Final = 5672
_HTTP: Final = 15672
_PATIENCE: Final = 120.0


class Container:
    """A container that runs once constructed and goes with `close()`."""

    def __init__(
        self, image: str, ports: tuple[int, ...], prepare: Callable[[DockerContainer], object]
    ) -> None:
        """Raises ServiceError if no Docker engine answers or the image cannot be had."""
        refusal = _engine_refusal()
        if refusal is not None:
            raise ServiceError(refusal)
        self._image = image
        self._prepare = prepare
        self._host_ports = dict(zip(ports, _free_ports(len(ports)), strict=True))
        self._container = self._create()

    def address(self, port: int) -> tuple[str, int]:
        """Host and port where we reach that port of the container."""
        return self._container.get_container_host_ip(), self._container.get_exposed_port(port)

    @property
    def running(self) -> bool:
        self._container.reload()
        return self._container.status == "running"

    def start(self) -> None:
        self._container.get_wrapped_container().start()

    def kill(self, sent: str) -> None:
        """Its main process has ended by this signal; its files stay."""
        container = self._container.get_wrapped_container()
        container.kill(signal=sent)
        container.wait()

    def execute(self, *command: str) -> None:
        result = self._container.exec(list(command))
        if result.exit_code != 0:
            said = result.output.decode(errors="replace")
            raise ServiceError(f"{command[0]} failed in {self._image}:\n{said}")

    def recreate(self) -> None:
        """Another one in its place: same addresses, no files. It runs."""
        self._container.stop()
        self._container = self._create()

    def wait_ready(self, ready: Callable[[], bool]) -> None:
        wait_ready(self._image, ready, lambda: self.running, self._tail, _PATIENCE)

    def close(self) -> None:
        self._container.stop()

    def _create(self) -> DockerContainer:
        container = DockerContainer(self._image)
        self._prepare(container)
        for port, host_port in self._host_ports.items():
            container.with_bind_ports(port, host_port)
        refused: type[Exception] = import_module("docker.errors").DockerException
        with ExitStack() as resources:
            resources.callback(container.stop)
            try:
                container.start()
            except refused as error:
                raise ServiceError(f"{self._image} does not start: {error}") from error
            resources.pop_all()
        return container

    def _tail(self) -> str:
        out, err = self._container.get_logs()
        return "\n".join((out + err).decode(errors="replace").splitlines()[-15:])


class PostgresContainer:
    """A Postgres in a container; ready when constructed."""

    def __init__(self, *, durable: bool) -> None:
        self._password = secrets.token_urlsafe(18)
        self._settings = options(durable=durable)
        self._container = Container(POSTGRES_IMAGE, (_SQL,), self._prepare)
        with ExitStack() as resources:
            resources.callback(self.close)
            self._container.wait_ready(lambda: accepts(self.url))
            resources.pop_all()

    def _prepare(self, container: DockerContainer) -> None:
        container.with_env("POSTGRES_PASSWORD", self._password)
        chosen = [f"--{name}={value}" for name, value in self._settings.items()]
        container.with_command(["postgres", *chosen])

    @property
    def url(self) -> str:
        host, port = self._container.address(_SQL)
        return URL.create(
            "postgresql+psycopg", "postgres", self._password, host, port, "postgres"
        ).render_as_string(hide_password=False)

    def restart_immediately(self) -> None:
        self._container.kill("SIGQUIT")
        self._container.start()
        self._container.wait_ready(lambda: accepts(self.url))

    def close(self) -> None:
        self._container.close()


class RabbitMQContainer:
    """A RabbitMQ in a container; ready when constructed."""

    def __init__(self) -> None:
        self._password = secrets.token_urlsafe(18)
        self._container = Container(RABBITMQ_IMAGE, (_AMQP, _HTTP), self._prepare)
        with ExitStack() as resources:
            resources.callback(self.close)
            self._wait_ready()
            resources.pop_all()

    def _prepare(self, container: DockerContainer) -> None:
        container.with_env("RABBITMQ_DEFAULT_USER", _USER)
        container.with_env("RABBITMQ_DEFAULT_PASS", self._password)
        container.with_copy_into_container(
            QUICK_STATISTICS.encode(), "/etc/rabbitmq/conf.d/90-taskbell.conf", 0o644
        )
        # The node is named after the host, and looks for its data by that name after a restart.
        container.with_kwargs(hostname="taskbell")

    @property
    def url(self) -> str:
        host, port = self._container.address(_AMQP)
        return f"amqp://{_USER}:{self._password}@{host}:{port}/%2F"

    @property
    def management_url(self) -> str:
        host, port = self._container.address(_HTTP)
        return f"http://{_USER}:{self._password}@{host}:{port}"

    @property
    def running(self) -> bool:
        return self._container.running

    def start(self) -> None:
        if not self.running:
            self._container.start()
        self._wait_ready()

    def kill(self) -> None:
        self._container.kill("SIGKILL")

    def wipe(self) -> None:
        """A new container; it must be stopped again as a wiped node is down."""
        if self.running:
            raise ServiceError("a node that runs cannot be wiped: kill it first")
        self._container.recreate()
        self._container.kill("SIGKILL")

    def control(self, *command: str) -> None:
        self._container.execute("rabbitmqctl", *command)

    def close(self) -> None:
        self._container.close()

    def _wait_ready(self) -> None:
        management = Management(self.management_url, patience=2.0)
        listener = ("health", "checks", "port-listener", str(_AMQP))
        self._container.wait_ready(lambda: management.answers(*listener))


def _free_ports(count: int) -> list[int]:
    held = [Port() for _ in range(count)]
    for port in held:
        port.release()
    return [port.number for port in held]


def _engine_refusal() -> str | None:
    """Why no container can be had here, in one line; none if a Docker engine answers."""
    docker = shutil.which("docker")
    if docker is None:
        return "no docker command"
    command = [docker, "version", "--format", "{{.Server.Version}}"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except subprocess.TimeoutExpired:
        return "the Docker engine does not answer"
    return None if said.returncode == 0 else (said.stderr.strip() or "no answer").splitlines()[-1]
