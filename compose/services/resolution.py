"""Which Postgres and which RabbitMQ: the first that can be had, in an order nobody need remember.

An address from outside; server binaries of this machine; a container; for Postgres the wheel of the
dependency group `embedded`. The addresses are parameters because only composition roots read the
environment.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from services import clusters, nodes
from services.certificate import Certificate
from services.guarded import ServiceError
from services.postgres import Postgres
from services.rabbitmq import RabbitMQ

_Service = TypeVar("_Service", Postgres, RabbitMQ)

OLDEST_POSTGRES: Final = 15

_POSTGRES_HELP: Final = """\
Any one of these helps:
  - `make demo` or `make test` as root on Debian or Ubuntu: they install it
  - install it yourself: apt-get install postgresql (the binaries suffice, no service need run)
  - start a Docker engine
  - uv sync --group embedded
  - TASKBELL_TEST_DATABASE_URL=postgresql://user:password@host/database of a Postgres 15 or newer
    whose user may create databases (tests that crash a server need one of the others as well)"""

_RABBITMQ_HELP: Final = """\
Any one of these helps:
  - `make demo` or `make test` as root on Debian or Ubuntu: they install it
  - install it yourself: apt-get install rabbitmq-server (the binaries suffice, none need run)
  - start a Docker engine
  - TASKBELL_TEST_AMQP_URL=amqp://user:password@host/ of a RabbitMQ 3.10 or newer, with
    TASKBELL_TEST_AMQP_ADMIN_URL=http://user:password@host:15672, its management API, whose user is
    an administrator (tests that kill a node need one of the others as well)"""


def open_postgres(
    url: str | None = None,
    *,
    durable: bool,
    binaries: Path | None = None,
    certificate: Certificate | None = None,
) -> Postgres:
    """A Postgres that answers; use it as a context manager.

    `url` is one from outside; `binaries` insists on the servers in that directory; `durable` keeps
    what a crash must not lose, and costs speed; with a `certificate` one that we start speaks TLS.
    Raises ServiceError saying what was tried.
    """
    if url is not None:
        return Postgres(url, origin="Postgres from outside")
    if binaries is not None:
        return _cluster(clusters.find_binaries(binaries), certificate, durable=durable)

    def local(found: Path | None) -> Postgres:
        return _cluster(found, certificate, durable=durable)

    return _first(
        "Postgres",
        {
            "binaries on this machine": lambda: local(clusters.find_binaries()),
            "container": lambda: _postgres_container(certificate, durable=durable),
            "embedded wheel": lambda: local(clusters.find_embedded()),
        },
        _POSTGRES_HELP,
    )


def open_rabbitmq(
    url: str | None = None,
    management_url: str | None = None,
    *,
    certificate: Certificate | None = None,
) -> RabbitMQ:
    """A RabbitMQ that answers; use it as a context manager.

    `url` and `management_url` are of one from outside; with a `certificate` one that we start
    speaks TLS only. Raises ServiceError saying what was tried.
    """
    if url is not None:
        return RabbitMQ(url, management_url, origin="RabbitMQ from outside")
    return _first(
        "RabbitMQ",
        {
            "binaries on this machine": lambda: _node(certificate),
            "container": lambda: _rabbitmq_container(certificate),
        },
        _RABBITMQ_HELP,
    )


def _first(what: str, attempts: Mapping[str, Callable[[], _Service]], help_: str) -> _Service:
    tried: list[str] = []
    for name, attempt in attempts.items():
        try:
            return attempt()
        except ServiceError as error:
            tried.append(f"  - {name}: {error}")
    raise ServiceError("\n".join([f"No {what} could be found or started:", *tried, help_]))


def _cluster(binaries: Path | None, certificate: Certificate | None, *, durable: bool) -> Postgres:
    if binaries is None:
        raise ServiceError("not found")
    description = clusters.describe(binaries)
    if int(description.split()[1].partition(".")[0]) < OLDEST_POSTGRES:
        raise ServiceError(f"{description} is older than {OLDEST_POSTGRES}")
    cluster = clusters.Cluster(binaries, durable=durable, certificate=certificate)
    return Postgres(cluster.url, cluster, description)


def _node(certificate: Certificate | None) -> RabbitMQ:
    scripts = nodes.find_scripts()
    if scripts is None:
        raise ServiceError("not found")
    node = nodes.Node(scripts, certificate)
    return RabbitMQ(node.url, node.management_url, node, nodes.describe(scripts))


def _postgres_container(certificate: Certificate | None, *, durable: bool) -> Postgres:
    _require_none(certificate)
    from services import containers  # noqa: PLC0415 - testcontainers is for those who need it

    container = containers.PostgresContainer(durable=durable)
    return Postgres(container.url, container, f"container of {containers.POSTGRES_IMAGE}")


def _rabbitmq_container(certificate: Certificate | None) -> RabbitMQ:
    _require_none(certificate)
    from services import containers  # noqa: PLC0415 - testcontainers is for those who need it

    container = containers.RabbitMQContainer()
    origin = f"container of {containers.RABBITMQ_IMAGE}"
    return RabbitMQ(container.url, container.management_url, container, origin)


def _require_none(certificate: Certificate | None) -> None:
    if certificate is not None:
        raise ServiceError("a container shows no certificate of ours")
