"""Servers with certificates of an authority that these tests make, and another authority."""

from collections.abc import Iterator

import pytest

from services import Postgres, RabbitMQ, ServiceError, open_postgres, open_rabbitmq
from support.authority import Authority

POSTGRES_NAME = "db.taskbell.example"
RABBITMQ_NAME = "localhost"


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Whom we trust."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def another(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Of the same kind, and not ours."""
    return Authority(tmp_path_factory.mktemp("another"))


@pytest.fixture(scope="session")
def tls_postgres(authority: Authority) -> Iterator[Postgres]:
    """A Postgres that is called ``POSTGRES_NAME``."""
    try:
        server = open_postgres(durable=False, certificate=authority.issue(POSTGRES_NAME))
    except ServiceError as error:
        pytest.fail(str(error), pytrace=False)
    with server:
        yield server


@pytest.fixture(scope="session")
def tls_rabbitmq(authority: Authority) -> Iterator[RabbitMQ]:
    """A RabbitMQ that is called ``RABBITMQ_NAME`` and hears nobody without TLS."""
    try:
        server = open_rabbitmq(certificate=authority.issue(RABBITMQ_NAME))
    except ServiceError as error:
        pytest.fail(str(error), pytrace=False)
    with server:
        yield server
